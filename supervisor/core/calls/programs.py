"""Facts about programs: which of them run what their arguments say, and which arguments only look.

A prefix such as `git status *` covers arguments that no person has seen. That is harmless only if no argument makes
the program run another one, read its orders from a file, or change what it was told to do before. A complete list of
the options that do cannot be made. So we list the opposite: further words are operands, or options known as harmless.

Rules
- `REVIEWED` are the prefixes that were reviewed, with the options known to be harmless in each. A person who writes any
  other prefix must mark it as unreviewed; and these are refused altogether:
- `LAUNCHERS` run what their arguments, their input or a file named there say. None of their names may be among the
  words of a prefix (`npm run env ./evil` runs ./evil, although npm is told to run a script);
- `BUILTINS` and reserved words have a meaning in a shell that no program of that name has.
- An operand is a bare word; never an assignment (`=`), a remote helper (`::`), a response file (`@`), or a `+` command.
- A further operand of a reviewed prefix has the shape of what its program takes there: a path, a name, a revision, a
  package of the folder. It is never an address, nor a name that the program would fetch or import from elsewhere:
  unittest calls any importable thing, so `python -m unittest install URL pip.main` would run the code at the address.
- A prefix can lose its review. A rule that holds it stays, is listed as one that allows nothing, and stops no start.
- Further operands stay in the folder: none is an absolute path, or has a `..` component. With others, a program that
  only looks reads every file of the machine (`git diff /dev/null /etc/shadow` compares any two files). A person who
  wants more says so in the prefix (`ls /srv *`). Words do not show where a link in the folder leads.
- A deny looks for its program after launchers, and after every program that may run some of its words. Names are
  compared there without folder, case and version: `/usr/bin/Python3.12` is python. A prefix is reviewed only under the
  name itself, or under that name in a folder of the system: `./git` could be any program.
- A prefix trusts the program, and the configuration of the folder it runs in, exactly as a permission to run it does.

The module is longer than 400 lines because most of it is tables.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from supervisor.core.calls.looking import looking_prefix, only_looks


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RUNNING_BUILTINS: Final = _names("""
    . alias bind builtin case command complete coproc enable eval exec fc for function hash select set source time trap
""")
BUILTINS: Final = _RUNNING_BUILTINS | _names("""
    : [ [[ bg break caller cd compgen compopt continue declare dirs disown do done elif else esac exit export
    fg fi getopts history if in jobs kill let local logout mapfile popd printf pushd read readarray readonly return
    shift shopt suspend test then times type typeset ulimit umask unalias unset until wait while
""")
LAUNCHED_BY: Final[Mapping[str, frozenset[str]]] = {
    "runs the words after it, or is a shell": _RUNNING_BUILTINS
    | _names("""
        ash bash busybox csh dash elvish fish ksh mksh nu oksh pwsh rbash rc sh tcsh toybox xonsh yash zsh
        at batch bwrap byobu chpst chroot chronic chrt cpulimit crontab cross-env daemon daemonize dbus-run-session
        direnv doas dotenv entr env envdir expect fakeroot fd fdfind find firejail flock foreach gosu hyperfine ionice
        launchctl linux32 linux64 ltrace mosh mpirun nice nohup nsenter numactl op open parallel perf pkexec prlimit
        proot proxychains run0 run-parts runcon runuser screen script setarch setpriv setsid setuidgid sg srun ssh
        sshpass start-stop-daemon stdbuf strace su su-exec sudo sudoedit systemctl systemd-cat systemd-inhibit
        systemd-run taskset telnet timeout tini tmux truss unbuffer unshare valgrind watch watchexec wine xargs xdg-open
        x86_64 xvfb-run zellij
    """),
    "is a language, or takes code as an argument": _names("""
        awk bun clisp clojure dc deno dotnet duckdb elixir erl escript gawk gdb ghci gjs groovy guile iex ipython irb
        java jjs jruby jrunscript jshell julia jupyter kotlin lldb lua luajit m4 mariadb mawk mongosh mysql nawk node
        nodejs nodemon ocaml octave osascript perl php powershell prove pry psql pydoc pypy python pythonw qjs r racket
        raku redis-cli rhino rscript ruby runghc runhaskell sbcl scala scheme sed sqlite swift tcc tclsh ts-node tsx
        wish zig
    """),
    "builds, installs or deploys whatever is named": _names("""
        ansible ansible-playbook ant apk apt apt-get aptitude asdf aws az bazel bmake brew buck bundle bundler bunx
        cabal cmake cmd composer conda corepack debconf dnf docker docker-compose dpkg fab flatpak gcloud gem gh gmake
        gradle gradlew guix hatch helm heroku husky invoke just kubectl lerna lint-staged make mamba meson micromamba
        mise mix mvn mvnw nerdctl ng ninja nix nix-build nix-env nix-shell nox npx nx oc pacman pdm pipenv pipx pnpm
        pnpx podman poetry pre-commit rake rpm rustup rye sbt scons snap stack task terraform tofu tox turbo uv uvx
        vagrant yarn yum zypper
    """),
    "executes or overwrites what words without a dash say": _names("""
        ar bat batcat bsdtar clang convert cpio ctags curl delta dialog ed emacs emacsclient ex ffmpeg ftp fzf gcc
        ghostscript gpg groff gs info javac joe latex ld less lftp lualatex magick mail mailx man mogrify more most mutt
        nano nc ncat netcat nroff nvim openssl pager pandoc pdflatex pg pico rclone restic rg rsync rustc rview rvim scp
        sftp socat tar tcpdump tex troff unzip vi view vim vimdiff wget xelatex zip
    """),
}
"""Programs that run what their arguments, their input or a file named there say; and in which way."""
LAUNCHERS: Final[frozenset[str]] = frozenset().union(*LAUNCHED_BY.values())

_CARGO: Final = "-q -v --release --all-targets --all-features --workspace --lib --bins --tests --locked --offline"
_PYTEST: Final = "-q -v -vv -x -s --lf --ff"
REVIEWED_BY: Final[Mapping[str, str]] = {
    "they only look, at the folder and at the repository that it is in": """
        basename:
        cat: -n --
        cmp: -s --
        comm: -1 -2 -3 --
        cut: -d -f -c --
        df: -h
        diff: -u -r -q -w --
        dirname:
        du: -s -h -sh -a
        echo: -n -e
        false:
        file: -b --
        git blame: -w -L --
        git describe: --tags --always --dirty --long --all
        git diff: -p -w --stat --shortstat --numstat --cached --staged --name-only --name-status --check --
        git log: -n -1 -2 -3 -5 -10 -20 -50 -p --oneline --graph --all --decorate --stat --shortstat --name-only --
        git log: --name-status --reverse --merges --no-merges --first-parent --follow --patch
        git ls-files: -o -m -d -s --others --modified --deleted --stage --exclude-standard --
        git rev-parse: --show-toplevel --abbrev-ref --short --verify --is-inside-work-tree --git-dir --
        git shortlog: -s -n -e -sn -sne --
        git show: -p --stat --name-only --name-status --oneline --no-patch --
        git status: -s -b -sb -v -z -u -uno -uall --short --branch --porcelain --porcelain=v1 --porcelain=v2 --long --
        git status: --ignored --show-stash
        grep: -c -i -l -n -o -q -r -v -w -E -F -in -rn -ri -rin -rl --
        head: -n -c --
        id: -u -g -n -un -gn
        ls: -1 -A -R -S -a -d -h -l -la -lA -lah -lh -al -r -t -lt -ltr --
        md5sum: --
        nl: -b --
        pwd:
        readlink: -f --
        realpath: --
        rg: -c -i -l -n -o -q -v -w -F -S --files --hidden --
        seq:
        sha256sum: --
        sleep:
        stat: --
        tail: -n -c --
        true:
        uname: -a -s -r -m
        wc: -c -l -m -w --
        which: -a
        whoami:
    """,
    "they only look, at what is installed or running": """
        cargo tree: CARGO
        docker images: -a -q
        docker ps: -a -q
        go list:
        kubectl get: -A -w
        npm ls: --all
        pip check:
        pip freeze:
        pip list: --outdated
        pip show: -f
    """,
    "they change the folder or its repository, and run none of their words": """
        git add: -A -u -v -n --all --update --dry-run --
        go fmt:
        mkdir: -p --
        rm: -f --
        rmdir: --
        ruff check: -q --no-fix --diff
        ruff format: -q --check --diff
        touch: --
    """,
    "they run the code of the folder: its scripts, its build and its tests, whichever file there an operand names": """
        cargo bench: CARGO
        cargo build: CARGO
        cargo check: CARGO
        cargo clippy: CARGO
        cargo doc: CARGO
        cargo test: CARGO
        go build: -v -race
        go test: -v -race -short -json
        go vet:
        mix test: --failed --stale --trace
        mypy: --strict
        npm run:
        npm run-script:
        npm test:
        pytest: PYTEST
        python -m mypy: --strict
        python -m pytest: PYTEST
        python -m unittest: -v -q -f -b
    """,
}
"""The reviewed prefixes: why they are harmless, and the harmless options of each."""


def _reviewed() -> dict[tuple[str, ...], frozenset[str]]:
    """Read the tables: the words with which a prefix begins, and its options."""
    table: dict[tuple[str, ...], frozenset[str]] = {}
    for text in REVIEWED_BY.values():
        for line in text.replace("CARGO", _CARGO).replace("PYTEST", _PYTEST).strip().splitlines():
            words, _, options = line.partition(":")
            begins = tuple(words.split())
            table[begins] = table.get(begins, frozenset()) | _names(options)
    return table


REVIEWED: Final[Mapping[tuple[str, ...], frozenset[str]]] = _reviewed()
LOST: Final[Mapping[str, str]] = {
    "go list -m": "it asks the host that its operand names",
    "npm outdated": "it sends the names among its operands to a registry",
}
"""Prefixes that were reviewed once, and why they are not any more."""
_SHAPED: Final[Mapping[str, str]] = {
    "echo grep rg seq basename dirname cut sleep": "word",
    "git-blame git-describe git-diff git-log git-rev-parse git-shortlog git-show": "word",
    "cargo-tree docker-images docker-ps kubectl-get npm-ls pip-check pip-freeze pip-list pip-show id which": "name",
    "cargo-bench cargo-build cargo-check cargo-clippy cargo-doc cargo-test npm-run npm-run-script npm-test": "name",
    "go-build go-fmt go-list go-test go-vet": "package",
    "python--m-unittest": "script",
}
_SHAPES: Final[Mapping[str, re.Pattern[str]]] = {
    # a path, perhaps with the parts of a test: tests/test_a.py::test_b
    "path": re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_@%+,./-]*(?:::[A-Za-z0-9_./-]+)*"),
    # of what is installed, running or written in the folder: build:prod, but no NAME@VERSION
    "name": re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_%+,./-]*(?::[A-Za-z0-9_.-]+)*"),
    # a revision of a repository or a text: HEAD:file, v1.2..main
    "word": re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_@%+:,./-]*"),
    # Go fetches a package whose first part has a dot
    "package": re.compile(r"(?:\.{1,3}|[A-Za-z0-9_-]+)(?:/[A-Za-z0-9_./-]*)?"),
    # unittest imports every other name, from wherever it is, and calls it
    "script": re.compile(r"discover|[A-Za-z0-9_./-]+\.py|[A-Za-z0-9_./-]*/[A-Za-z0-9_-]*"),
}
"""What the further operands of reviewed prefixes are: those of `_SHAPED`, and paths after all others."""
_SHAPE_OF: Final = {
    words: next((shape for names, shape in _SHAPED.items() if "-".join(words) in names.split()), "path")
    for words in REVIEWED
}
WITH_COMMANDS: Final = frozenset(words[0] for words in REVIEWED if len(words) > 1)
"""Programs with commands of their own: a prefix must name the command."""
_NAMING_BUILTINS: Final = _names("""
    [ [[ declare export getopts let local printf read readonly test typeset unset wait
""")
"""Builtins whose words may be names of variables: an index or a value there can hold a command, also in quotes."""
_TESTS: Final = _names("[ [[ printf test")
"""Those that give no variable a value by `=`."""
_RUN_NO_WORDS: Final = (
    frozenset(words[0] for words in REVIEWED) - LAUNCHERS
    | BUILTINS - _names("compgen mapfile readarray")  # with -C or -F, they run a word
    | _names("""
    chgrp chmod chown cp date dd expr groups gunzip gzip hostname jq kill link ln mkfifo mktemp mv nproc paste pgrep
    pkill printenv ps pstree strings sync tac tee test tr tree truncate tty uniq unlink uptime users w who yes
""")
)
"""Programs that run none of their words, whatever the words are; except some commands of programs with commands."""
_RUNS_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "cargo": _names("install run"),
    "git": _names("""
        archive bisect clone config daemon difftool fetch filter-branch grep ls-remote mergetool pull push rebase remote
        submodule
    """),
    "go": _names("generate install run tool"),
    "npm": _names("exec explore init x"),
}
"""Their commands that run what other words say."""

_RUNNING: Final = _names("run run-script")
"""Commands whose next word names what of the folder they run."""
_SEEN: Final = _names("""
    add apply chgrp chmod chown clean commit cp crontab curl dd delete deploy destroy drop exec install kill killall
    link ln login migrate mkfifo mkfs mount mv pkill publish purge push reboot rebase release remove reset restart rm
    rmdir shred shutdown start stop tee truncate umount uninstall unlink update upgrade up version wget
""")
"""Words of commands that a person wants to see each time: they discard, overwrite, install, publish, begin or end
something."""
_CHECKERS: Final = _names("biome credo dialyzer eslint prettier rubocop shellcheck standardrb stylelint tsc vitest")
"""Programs that were not reviewed, and check what they are given, whatever else they are told."""
_CHECKING: Final = _names("analyze check compile coverage format lint spec test tests typecheck validate verify")
"""Commands that check, whichever program has them."""
_ORDERING: Final = _names("""
    call checkout config console db dlx do env eval fetch init invoke pub pull repl restore revert run runner script set
    shell sql stash switch sync use x
""")
"""Commands that programs without a review may have: they run what further words say, fetch, or discard."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_:./-]*")
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
"""Prefixes that a person is offered, and what they show: they only look. A person who wants another prefix must write
it."""

_OPERAND: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_@%+:,./-]*")
_ADDRESS: Final = re.compile(r".*://|[A-Za-z0-9.-]*\+[A-Za-z0-9.-]+:")
_HELPER: Final = re.compile(r"[A-Za-z0-9+-]+::")
_VERSION: Final = re.compile(r"(?<=.)[-.]?\d[\d.]*\Z")
_LETTERS: Final = re.compile(r"[a-z]+")
_SYSTEM: Final = re.compile(r"(?:/usr(?:/local)?)?/s?bin/(?=[^/]+\Z)")
_VERSIONED: Final = re.compile(r"(python|pip)3?(?:\.\d+)?")


def family(program: str) -> str:
    """Return a program's name in the tables: without folder, version and `.exe`, in lower case."""
    name = program.rstrip("/").rpartition("/")[2].casefold().removesuffix(".exe")
    return name if name in LAUNCHERS else _VERSION.sub("", name) or name


def is_launcher(program: str) -> bool:
    """Return whether a program runs, or may run, what its arguments or its input say; in doubt (`git-shell`) yes."""
    name = family(program)
    letters = _LETTERS.match(name)
    if name in LAUNCHERS or letters is None:
        return name in LAUNCHERS
    return letters[0] != name and (letters[0] in LAUNCHERS or letters[0] in WITH_COMMANDS)


def may_run_words(program: str, words: Sequence[str]) -> bool:
    """Return False only if a program is known to run none of its words."""
    name, first = family(program), next(iter(words), "")
    if name in _NAMING_BUILTINS:
        return any("$" in word or "`" in word or ("=" in word and name not in _TESTS) for word in words)
    if name not in _RUN_NO_WORDS:
        return True
    return name in WITH_COMMANDS and (first.startswith("-") or first in _RUNS_WORDS.get(name, ()))


def stays_in_folder(word: str) -> bool:
    """Return whether a further word, as a path, stays within the folder in which the command runs."""
    return not word.startswith("/") and ".." not in word.split("/")


def why_no_prefix(prefix: Sequence[str]) -> str | None:
    """Return why these words cannot be a prefix at all; None if they can."""
    program, *rest = prefix
    name = family(program)
    if not _OPERAND.fullmatch(program):
        return f"{program!r} is not the name of a program"
    if _reviewed_words(prefix) is not None or looking_prefix(prefix) is not None:
        return None
    if name in WITH_COMMANDS and (not rest or rest[0].startswith("-")):
        commands = ", ".join(" ".join(words[1:]) for words in REVIEWED if words[0] == name)
        return f"{name} has commands of its own, and the prefix must name one: {commands}"
    if name in BUILTINS and name not in LAUNCHERS:
        return f"{name} is a builtin or a reserved word of the shell; allow exact commands"
    if is_launcher(program):
        ways = (way for way, names in LAUNCHED_BY.items() if name in names)
        return (
            f"{name} {next(ways, 'may run what its words say')}, so its prefix could run anything; allow exact commands"
        )
    return None


def why_unreviewed(prefix: Sequence[str]) -> str | None:
    """Return why a prefix is not known to be harmless; None if it is."""
    begins = _reviewed_words(prefix)
    if (lost := why_lost(prefix)) is not None:
        return f"{' '.join(prefix)} is not a reviewed prefix any more: {lost}"
    if begins is None and (looking := looking_prefix(prefix)) is not None:
        is_known = tuple(prefix) == looking or only_looks(prefix, None)
        return None if is_known else f"{' '.join(looking)} is not reviewed with {prefix[-1]}"
    if begins is None:
        return f"{' '.join(prefix)} is not a reviewed prefix: its further words may run anything"
    known = REVIEWED[begins]
    strange = [word for word in prefix[len(begins) :] if not (word in known or _is_operand(word))]
    return f"{' '.join(begins)} is not reviewed with {strange[0]}" if strange else None


def _only_checks(command: str) -> bool:
    """Whether a command of a program that was not reviewed says that it checks (`test`, `lint:fix`)."""
    first, *others = re.split("[:.-]", command)
    return first in _CHECKING and (_SEEN | _ORDERING).isdisjoint(others)


def meant_prefix(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the first words of a command that a person means by "always": its program and, where it has some, its
    command and what that names (`npm run check`). None for what a person must see each time. Of a program that was not
    reviewed only a command that checks is known (`mix test`), or the program is a known checker (`eslint src`)."""
    begins = looking_prefix(words) or _reviewed_words(words)
    program, rest = words[0], [*words[1:]]
    named = tuple(words[: len(begins)]) if begins is not None else (program, *rest[:1])
    if begins is not None and begins[-1] in _RUNNING and len(words) > len(begins):
        named = (*named, words[len(begins)])
    if any(word in _SEEN for word in named) or not all(map(_NAME.fullmatch, named)):
        return None
    is_strange = is_launcher(program) or program in BUILTINS or family(program) in WITH_COMMANDS or len(named) < 2
    is_strange = is_strange or not (family(program) in _CHECKERS or _only_checks(named[1]))
    if (begins is None and is_strange) or why_lost(named) is not None:
        return None
    return named if why_no_prefix(named) is None else None


def why_lost(prefix: Sequence[str]) -> str | None:
    """Return why a prefix that was reviewed once is not any more; None for any other prefix."""
    text = " ".join(prefix)
    return next((why for lost, why in LOST.items() if f"{text} ".startswith(f"{lost} ")), None)


def is_harmless(words: Sequence[str], prefix: int) -> bool:
    """Return whether words run their program and, as far as can be known, nothing that the further words name. The
    first `prefix` words are the prefix; if it is unreviewed, none of its program's options is known."""
    begins = _reviewed_words(words[:prefix])
    if begins is None and looking_prefix(words) is not None:
        return only_looks(words, None)
    known = frozenset[str]() if begins is None else REVIEWED[begins]
    shape = None if begins is None else _SHAPE_OF[begins]
    further = words[prefix:]
    return all(word in known if word.startswith("-") else _is_operand(word, shape) for word in further) and all(
        map(stays_in_folder, further)
    )


def _reviewed_words(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the words of REVIEWED with which these words begin, if there are any."""
    program = _SYSTEM.sub("", words[0])
    versioned = _VERSIONED.fullmatch(program)
    begins = (versioned[1] if versioned else program, *words[1:3])
    return next((begins[:count] for count in (3, 2, 1) if begins[:count] in REVIEWED), None)


def _is_operand(word: str, shape: str | None = None) -> bool:
    """Return whether a word is an operand; `shape`: one of that shape, and so no address."""
    if _OPERAND.fullmatch(word) is None or _HELPER.match(word) is not None or family(word) in LAUNCHERS:
        return False
    return shape is None or (_SHAPES[shape].fullmatch(word) is not None and _ADDRESS.match(word) is None)
