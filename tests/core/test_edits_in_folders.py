"""A7: edits inside a folder are one grant, and no file that runs by itself or leads elsewhere is among them."""

import os

import pytest

from supervisor.core.calls.content import shown_content
from supervisor.core.calls.edits import MARKED, folder_in, why_no_folder
from supervisor.core.calls.rules import (
    allow,
    ask,
    checked_rule,
    deny,
    find_option,
    grantable,
    make_rule,
    named_edits,
    offer,
    offered,
    policy_of,
    why_asked,
)
from supervisor.core.declarations.tool_spec import tool
from supervisor.core.errors import InvalidInput
from supervisor.system.settling import settle

HARMLESS = """
a.py src/main.py ./src/x.ts docs/howto/page.md lib/parse.rs src/package/index.js src/makefile_reader.py
README.md src/git/hooks_test.py workflow.txt data.json style.css src/CI/run.py x/y/z/new.txt café.md a-b_c.d.ts shell.py
"""
NOT_HARMLESS = r"""
.git/hooks/x .git/config ./.git/config a/../.git/config .git sub/.git/config .GIT/config .Git/HOOKS/post-checkout
.git./config .git/../.git/config .git::$INDEX_ALLOCATION/config GIT~1/config .gitmodules .gitattributes .hg/hgrc
.svn/x
.claude/settings.json ./.claude/settings.json .claude/settings.local.json .mcp.json .codex/config.toml
.opencode/x.json
.cursor/rules/x.mdc .gemini/settings.json .vscode/tasks.json .idea/workspace.xml .devcontainer/devcontainer.json
CLAUDE.md sub/CLAUDE.md claude.md AGENTS.md GEMINI.md mcp.json opencode.json .aider.conf.yml
.github/copilot-instructions.md
package.json sub/package.json PACKAGE.JSON package.json. package-lock.json pyproject.toml setup.py setup.cfg
requirements.txt requirements-dev.txt Pipfile poetry.lock uv.lock Cargo.toml build.rs go.mod Gemfile composer.json
pom.xml
build.gradle build.gradle.kts mix.exs tox.ini noxfile.py conftest.py tests/conftest.py pytest.ini sitecustomize.py
x.pth
.github/workflows/x.yml .gitlab-ci.yml .circleci/config.yml Jenkinsfile azure-pipelines.yml bitbucket-pipelines.yml
Makefile makefile GNUmakefile rules.mk justfile Taskfile.yml Rakefile CMakeLists.txt x.cmake BUILD BUILD.bazel
x.bzl
Dockerfile Dockerfile.dev docker-compose.yml compose.yaml Vagrantfile Procfile main.tf vite.config.ts
jest.config.js
.envrc .env .bashrc .profile .zshrc .npmrc .pre-commit-config.yaml .husky/pre-commit .ssh/authorized_keys .netrc
run.sh RUN.SH bin/x.bash x.fish x.ps1 x.bat x.cmd x.service x.so node_modules/x/index.js venv/lib/x.py vendor/x.go
hooks/pre-commit githooks/x cron.d/x supervisor.toml supervisor.db ~/x ~ ~root/x ../x ../../etc/passwd /etc/passwd
/srv/application/x /srv/app/../app2/x /srv /srv/app /srv/app/ . / a.py/ /proc/self/cwd/a.py /dev/stdout C:\x a\b
.\.git\x
link/../x src/../b.md link/x in/x hard.py deploy fifo a:b "a" a*b
"""
SPELLED = [
    "",
    "a\0.py",
    ".git\0/x",
    "a\n.py",
    "pa\u200cckage.json",
    ".g\u200dit/config",
    "\uff0egit/config",
    "Make\ufb01le",
    "package.j\u017fon",
    " .git/config",
    ".git /config",
    "\u202ea.py",
    None,
    1,
    ["a.py", "/etc/passwd"],
    ["a.py", ".git/config"],
    [],
]


@tool(edits="file")
async def write(file: str, text: str = "") -> None: ...


@tool(paths=["source"], edits="target")
async def copy(source: str, target: str) -> None: ...


def said(arguments, name="write", settled=None, rules=None, folder="/srv/app", **more):
    content = shown_content(name, arguments, folder=folder, **{"paths": ("file",), "edits": ("file",)} | more)
    where = {each: each for each in named_edits(content)} if settled is None else settled(content)
    rules = [allow("write", "edits inside /srv/app")] if rules is None else rules
    found = policy_of(rules, content, root_session=None, settled=where)
    return found and found[0]


def disk(content):
    """Return where paths lead on a disk with links, a hard link, an executable file and a pipe."""
    found = {}
    for path in {*named_edits(content), "/srv/app"}:
        leads = path
        for link, target in {
            "/srv/app/link": "/etc",
            "/srv/app/in": "/srv/app/.git",
            "/proc/self/cwd": "/srv/app",
        }.items():
            if path == link or path.startswith(f"{link}/"):
                leads = target + path.removeprefix(link)
        found[path] = leads
        if leads.rpartition("/")[2] in ("hard.py", "deploy", "fifo"):
            found[leads + MARKED] = leads
    return found


@pytest.mark.parametrize("path", HARMLESS.split())
def test_an_edit_of_a_text_in_the_folder_is_covered(path):
    """Spelled from the folder, and from the root."""
    assert said({"file": path}, settled=disk) == "allow"
    assert said({"file": f"/srv/app/{path}"}, settled=disk) == "allow"


@pytest.mark.parametrize("path", [*NOT_HARMLESS.split(), *SPELLED])
def test_a_path_that_looks_harmless_and_is_not_asks(path):
    """Whatever its case, its spelling, and where it leads; and nothing is offered for it."""
    assert said({"file": path}, settled=disk) is None
    content = shown_content("write", {"file": path}, folder="/srv/app", paths=("file",), edits=("file",))
    assert not any(folder_in(each) for each in offered(content, settled=disk(content)))
    if isinstance(path, str) and not path.startswith("/"):
        assert said({"file": f"/srv/app/{path}"}, settled=disk) is None
        is_of_the_folder = path == "." or path.startswith(("../", "link/", "in/"))
        assert is_of_the_folder or said({"file": f"sub/{path}"}, settled=disk) is None


def test_only_what_a_tool_edits_is_covered():
    """A path that it reads, moves or deletes is none; nor is a command, a secret, or a call that names no file."""
    both = {"paths": copy.paths, "edits": copy.edits}
    assert copy.paths == ("source", "target")
    rules = [allow(copy, "edits inside /srv/app")]
    assert said({"source": "a", "target": "b"}, "copy", rules=rules, **both) is None
    assert said({"file": "a"}, edits=()) is None
    assert said({"file": "a"}, command="text") is None
    assert said({"file": "a", "text": "x"}, secret=("text",)) is None
    assert said({"text": "a"}) is None
    assert said({"file": "a"}, settled=lambda content: {}) is None
    assert said({"file": "a"}, folder=None, settled=lambda content: {"/srv/app": "/srv/app"}) is None
    assert said({"file": "a"}) == "allow"


def test_the_editors_of_claude_code_are_one_editor():
    """A grant to one is one to all; a rule of another kind is not, and another tool is none of them."""
    claude = {"paths": ("file_path",), "edits": ("file_path",)}
    rules = [allow("Edit", "edits inside /srv/app")]
    for name in ("Edit", "MultiEdit", "Write"):
        assert said({"file_path": "/srv/app/a"}, name, rules=rules, **claude) == "allow"
        assert said({"file_path": "/srv/app/.git/a"}, name, rules=rules, **claude) is None
    assert said({"file_path": "/srv/app/a"}, "Read", rules=rules, **claude) is None
    assert said({"file_path": "/srv/app/a"}, "Write", rules=[allow("Edit", "/srv/app/**")], **claude) is None
    assert said({"file_path": "/srv/app/a"}, "Write", rules=[*rules, deny("Write", "/srv/app/a")], **claude) == "deny"
    assert said({"file_path": "/srv/app/a"}, "Write", rules=[*rules, ask("Write")], **claude) == "ask"


def test_the_grant_is_offered_last_and_never_chosen_without_its_pattern():
    """Also where the exact arguments are too long to be offered."""
    for text in ("x", "x" * 2000):
        content = shown_content(
            "write", {"file": "a", "text": text}, folder="/srv/app", paths=("file",), edits=("file",)
        )
        where = {each: each for each in named_edits(content)}
        found = offered(content, settled=where)
        assert found == (*grantable(content), "edits inside /srv/app")
        options = offer(found, content.arguments)
        chosen = find_option(options, "always", None)
        assert (chosen is None) == (text != "x")
        assert find_option(options, "always", "edits inside /srv/app").pattern == "edits inside /srv/app"
        assert offered(content, settled=where, ours=["/srv/app/a"]) == grantable(content)
        assert offered(content) == grantable(content)


@pytest.mark.parametrize(
    "folder", ["/", "/srv", "/etc/nginx", "/home/ana", "/usr/local/src", "/srv/.git", "/srv/a/.claude/b"]
)
def test_no_root_home_or_folder_of_the_system_is_granted(folder):
    """Nor one whose own name is excluded; nor by a link."""
    with pytest.raises(InvalidInput):
        allow("write", f"edits inside {folder}")
    assert why_no_folder(folder)
    assert said({"file": "/srv/app/a"}, settled=lambda _: {"/srv/app": folder, "/srv/app/a": f"{folder}/a"}) is None


def test_a_grant_is_kept_as_it_reads_and_only_allows():
    """On a tool that declares what it edits."""
    assert allow("Edit", "edits inside /srv//app/../app/").pattern == "edits inside /srv/app"
    assert checked_rule(allow(write, "edits inside /srv/app/**")).pattern == "edits inside /srv/app"
    for make in (deny, ask):
        with pytest.raises(InvalidInput, match=r"/srv/app/\*\*"):
            make(write, "edits inside /srv/app")
    with pytest.raises(InvalidInput, match="edits="):
        allow(tool(paths=["file"])(lambda file: None), "edits inside /srv/app")
    with pytest.raises(InvalidInput, match="names no folder"):
        allow("Edit", "edits inside src")


def test_a_person_reads_what_keeps_a_file_from_the_grant():
    """The rule, and what the file is."""
    content = shown_content("write", {"file": "package.json"}, folder="/srv/app", paths=("file",), edits=("file",))
    why = why_asked(None, [allow("write", "edits inside /srv/app")], content, root_session=None)
    assert why.endswith("does not cover it: package.json says what is installed or built, and how")


def test_the_disk_marks_what_is_no_plain_file_of_one_name(tmp_path):
    """A hard link, a file that can be executed, a folder and a pipe; not a text, and not what does not exist yet."""
    for name in ("text", "script"):
        (tmp_path / name).write_text("x")
    (tmp_path / "script").chmod(0o755)
    (tmp_path / "first").write_text("x")
    os.link(tmp_path / "first", tmp_path / "second")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "script")
    marked = {each.name for each in tmp_path.iterdir() if any(MARKED in path for path in settle([str(each)]))}
    assert marked == {"script", "first", "second", "pipe", "link"}
    assert settle([f"{tmp_path}/new/file"]) == {f"{tmp_path}/new/file": f"{tmp_path}/new/file"}


def test_a_way_up_out_of_a_link_is_not_where_it_reads(tmp_path):
    """`link/../b.py` is next to what the link names; also of an allow of the folder, and by the own cwd of the call."""
    (tmp_path / "else" / "where").mkdir(parents=True)
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "link").symlink_to(tmp_path / "else" / "where")
    folder = str(tmp_path / "app")
    rules = [allow("write", f"edits inside {folder}"), make_rule("allow", "write", f"{folder}/**", "code", paths=True)]
    on_disk = {"rules": rules, "folder": folder, "settled": lambda content: settle({*named_edits(content), folder})}
    assert said({"file": "link/../b.py"}, **on_disk) is None
    assert said({"file": f"{folder}/link/../b.py"}, **on_disk) is None
    assert said({"file": "b.py", "cwd": "link/.."}, **on_disk) is None
    assert said({"file": "b.py"}, **on_disk) == "allow"
