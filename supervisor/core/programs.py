"""What is known of programs: which of them run what their arguments say, and which arguments only look.

A prefix such as `git status *` stands for arguments that nobody has seen. That is harmless only if no argument makes
the program run another one, read its orders from a file, or change what it was told to do before. Nobody can list the
options that do; so it is the other way round: further words are operands, or options that are known to be harmless.

Rules
- `LAUNCHERS` run what their arguments, their input or a file named there say: they have no prefix, and none of their
  names may stand among the words of one (`npm run env ./evil` runs ./evil, although npm is told to run a script).
- `BUILTINS` and reserved words mean something to a shell that no program of that name does: they have no prefix.
- Where a program has commands of its own, only those in `SUBCOMMANDS` have a prefix, and they must be named in it.
- An operand is a bare word; never an assignment (`=`), a remote helper (`::`), a response file (`@`), or a `+` command.
- Further operands stay in the folder: none is an absolute path, or has a `..` component. With others, a program that
  only looks reads every file of the machine (`git diff /dev/null /etc/shadow` compares any two files). Who wants more
  says it in the prefix (`ls /srv *`). A link in the folder leads where it leads: words cannot tell.
- Names are compared without folder, case and version: `/usr/bin/Python3.12` is python.
- A prefix trusts the program, and the configuration of the folder it runs in, exactly as a permission to run it does.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _subcommands(text: str) -> dict[str, dict[str, frozenset[str]]]:
    """Read lines of program, command and options."""
    table: dict[str, dict[str, frozenset[str]]] = {}
    for line in text.strip().splitlines():
        program, command, *options = line.split()
        known = table.setdefault(program, {})
        known[command] = known.get(command, frozenset()).union(options)
    return table


_RUNNING_BUILTINS: Final = _names("""
    . alias bind builtin case command complete coproc enable eval exec fc for function hash select set source time trap
""")
BUILTINS: Final = _RUNNING_BUILTINS | _names("""
    : [ [[ bg break caller cd compgen compopt continue declare dirs disown do done echo elif else esac exit export false
    fg fi getopts history if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return
    shift shopt suspend test then times true type typeset ulimit umask unalias unset until wait while
""")
LAUNCHERS: Final = _RUNNING_BUILTINS.union(
    _names("""
        ash bash busybox csh dash elvish fish ksh mksh nu oksh pwsh rbash rc sh tcsh toybox xonsh yash zsh
        at batch bwrap byobu chpst chroot chrt cpulimit crontab cross-env daemon daemonize dbus-run-session direnv doas
        dotenv entr env envdir expect fakeroot fd fdfind find firejail flock foreach gosu hyperfine ionice launchctl
        ltrace mosh nice nohup nsenter numactl op open parallel perf pkexec prlimit proot proxychains run-parts runcon
        runuser screen script setarch setpriv setsid setuidgid ssh sshpass start-stop-daemon stdbuf strace su su-exec
        sudo sudoedit systemctl systemd-run taskset telnet timeout tini tmux truss unbuffer unshare valgrind watch
        watchexec wine xargs xdg-open xvfb-run zellij
    """),  # shells, and what runs the words behind it
    _names("""
        awk bun clisp clojure dc deno duckdb elixir erl escript gawk gdb ghci gjs groovy guile iex ipython irb java jjs
        jrunscript jshell julia jupyter kotlin lldb lua luajit m4 mariadb mawk mongosh mysql nawk node nodejs nodemon
        ocaml octave osascript perl php powershell pry psql pypy python pythonw qjs r racket raku redis-cli rhino
        rscript ruby runghc runhaskell sbcl scala scheme sed sqlite swift tcc tclsh ts-node tsx wish
    """),  # languages, and what takes code as an argument
    _names("""
        ansible ansible-playbook ant apk apt apt-get aptitude asdf aws az bazel brew buck bundle bunx cabal cmake cmd
        composer conda corepack dnf docker docker-compose dpkg fab flatpak gcloud gem gmake gradle gradlew guix hatch
        helm heroku husky invoke just kubectl lerna lint-staged make mamba meson micromamba mise mix mvn mvnw nerdctl
        ng ninja nix nix-build nix-env nix-shell nox npx nx pacman pdm pipenv pipx pnpm pnpx podman poetry pre-commit
        rake rpm rustup rye sbt scons snap stack task terraform tofu tox turbo uv uvx vagrant yarn yum zypper
    """),  # what builds, installs or deploys whatever is named
    _names("""
        ar bat bsdtar clang convert cpio ctags curl delta dialog ed emacs emacsclient ex ffmpeg ftp fzf gcc ghostscript
        gpg groff gs info javac joe latex ld less lftp lualatex magick mail mailx man mogrify more most mutt nano nc
        ncat netcat nroff nvim openssl pager pandoc pdflatex pg pico rclone restic rg rsync rustc rvim scp sftp socat
        tar tcpdump tex troff unzip vi view vim vimdiff wget xelatex zip
    """),  # what executes by words without a dash: archives, pagers, editors, compilers, transfers
)

_CARGO: Final = "-q -v --release --all-targets --all-features --workspace --lib --bins --tests --locked --offline"
_COMMANDS: Final = """
    git add        -A -u -v -n --all --update --dry-run --
    git blame      -w -L --
    git branch     -a -r -v -vv --all --remotes --list --show-current --merged --no-merged
    git describe   --tags --always --dirty --long --all
    git diff       -p -w --stat --shortstat --numstat --cached --staged --name-only --name-status --check --
    git log        -n -1 -2 -3 -5 -10 -20 -50 -p --oneline --graph --all --decorate --stat --shortstat --name-only --
    git log        --name-status --reverse --merges --no-merges --first-parent --follow --patch
    git ls-files   -o -m -d -s --others --modified --deleted --stage --exclude-standard --
    git rev-parse  --show-toplevel --abbrev-ref --short --verify --is-inside-work-tree --git-dir --
    git shortlog   -s -n -e -sn -sne --
    git show       -p --stat --name-only --name-status --oneline --no-patch --
    git status     -s -b -sb -v -z -u -uno -uall --short --branch --porcelain --porcelain=v1 --porcelain=v2 --long --
    git status     --ignored --show-stash
    git tag        -l -n --list
    npm ls         --all
    npm outdated
    npm run
    npm run-script
    npm test
    cargo bench    CARGO
    cargo build    CARGO
    cargo check    CARGO
    cargo clippy   CARGO
    cargo doc      CARGO
    cargo test     CARGO
    cargo tree     CARGO
    go build       -v -race
    go fmt
    go list        -m
    go test        -v -race -short -json
    go vet
    pip check
    pip freeze
    pip list       --outdated
    pip show       -f
"""
SUBCOMMANDS: Final[Mapping[str, Mapping[str, frozenset[str]]]] = _subcommands(_COMMANDS.replace("CARGO", _CARGO))
"""Programs with commands of their own: the commands that can have a prefix, and the options harmless in each."""

OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "cat": _names("-n --"),
    "df": _names("-h"),
    "diff": _names("-u -r -q -w --"),
    "du": _names("-s -h -sh -a"),
    "grep": _names("-c -i -l -n -o -q -r -v -w -E -F -in -rn -ri -rin -rl --"),
    "head": _names("-n -c --"),
    "ls": _names("-1 -A -R -S -a -d -h -l -la -lA -lah -lh -al -r -t -lt -ltr --"),
    "mypy": _names("--strict"),
    "pytest": _names("-q -v -vv -x -s --lf --ff"),
    "tail": _names("-n -c --"),
    "wc": _names("-c -l -m -w --"),
}
"""Options known to be harmless in other programs; where a program is not listed, none is."""

_OF_REPOSITORY: Final = "whatever the repository there holds and has ever held"
OFFERED: Final[Mapping[tuple[str, ...], str]] = {
    ("ls",): "names, sizes, owners and dates of whatever is in this folder",
    ("wc",): "how many lines, words and characters each file in this folder has",
    ("git", "blame"): _OF_REPOSITORY,
    ("git", "describe"): "names of commits of the repository there",
    ("git", "diff"): "whatever the repository there holds and has ever held, and the files in this folder",
    ("git", "log"): _OF_REPOSITORY,
    ("git", "ls-files"): "names of files in this folder",
    ("git", "rev-parse"): "names of commits of the repository there",
    ("git", "shortlog"): "who has written what in the repository there",
    ("git", "show"): _OF_REPOSITORY,
    ("git", "status"): "names of changed files of the repository there",
}
"""Prefixes that a person is offered, and what they show: they only look. Every other one must be written by somebody
who wants it."""

_OPERAND: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_@%+:,./-]*")
_HELPER: Final = re.compile(r"[A-Za-z0-9+-]+::")
_VERSION: Final = re.compile(r"(?<=.)[-.]?\d[\d.]*\Z")
_LETTERS: Final = re.compile(r"[a-z]+")


def family(program: str) -> str:
    """Return the name by which a program is known: without folder, version and `.exe`, in lower case."""
    name = program.rstrip("/").rpartition("/")[2].casefold().removesuffix(".exe")
    return _VERSION.sub("", name) or name


def is_launcher(program: str) -> bool:
    """Whether it runs, or may run, what its arguments or its input say; in doubt (`git-shell`) it may."""
    name = family(program)
    letters = _LETTERS.match(name)
    if name in LAUNCHERS or letters is None:
        return name in LAUNCHERS
    return letters[0] != name and (letters[0] in LAUNCHERS or letters[0] in SUBCOMMANDS)


def stays_in_folder(word: str) -> bool:
    """Whether a further word, taken as a path, names nothing outside the folder in which the command runs."""
    return not word.startswith("/") and ".." not in word.split("/")


def is_harmless(words: Sequence[str]) -> bool:
    """Whether these words run their program and nothing that the words name, as far as can be known."""
    program, *rest = words
    name = family(program)
    if not _OPERAND.fullmatch(program) or is_launcher(program) or name in BUILTINS:
        return False
    known = OPTIONS.get(name, frozenset())
    if name in SUBCOMMANDS:
        if not rest or rest[0] not in SUBCOMMANDS[name]:
            return False
        known = SUBCOMMANDS[name][rest[0]]
        rest = rest[1:]
    return all(word in known if word.startswith("-") else _is_operand(word) for word in rest)


def _is_operand(word: str) -> bool:
    return _OPERAND.fullmatch(word) is not None and _HELPER.match(word) is None and family(word) not in LAUNCHERS
