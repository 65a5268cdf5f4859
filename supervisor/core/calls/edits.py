"""Edits inside a folder: one grant for each edit of a file there, but for the files that do more than they say (A7).

    allow("Edit", "edits inside /srv/app")      src/main.py: covered      package.json, .git/hooks/x, run.sh: asks

Theory: a person who lets an agent edit a folder means its texts. Some files there are programs that start by
themselves (hooks, manifests, CI), or say what agents may do. So a tool declares which arguments are files that
it edits, and the grant covers a call whose files are all inside, and of no shape in the tables below.

Rules
- A path is judged as it is spelled and as it is settled (core/calls/paths.py), each by each of its names: without
  regard to case, width and what ends a name on other systems. One that was not settled is not covered.
- A file that the environment marks (`MARKED`) is not covered: one with further names, one that can be executed, and
  what is no file.
- The names of the folder itself are judged, too: a folder of hooks has no harmless file. No folder of the system, no
  home and no root is one to edit in.
- A tool that may delete or move what is at its path does not edit it, and declares no such argument.
- The tools of Claude Code that edit are one editor: edits inside a folder that one may make, the others may.
- Pure. In doubt a call is not covered: a person is asked, as without the rule.
"""

import re
from collections.abc import Collection, Mapping
from fnmatch import translate
from typing import Any, Final
from unicodedata import normalize

from supervisor.core.calls import paths

INSIDE: Final = "edits inside "
EDITORS: Final[Mapping[str, tuple[str, ...]]] = {
    name: paths.OF_TOOLS[name] for name in ("Edit", "MultiEdit", "NotebookEdit", "Write")
}
"""The tools of Claude Code that edit a file, and only that, with the arguments that name it."""
MARKED: Final = "\0marked"
"""A settled file is in `Settled` a second time, under its path and this, if it is not a plain text of one name."""

BUT_FOR: Final = "but for hidden files, scripts, manifests, CI, what builds run, and what tells agents what to do"
"""What a person who grants edits is told of the shapes below."""
_NOT_COVERED: Final[Mapping[str, str]] = {
    "is hidden, as what configures programs and agents is": ".*",
    "is a script": """
        *.sh *.bash *.zsh *.fish *.ksh *.csh *.ps1 *.psm1 *.psd1 *.bat *.cmd *.vbs *.wsf *.command *.desktop
        *.service *.timer *.plist *.reg *.exe *.dll *.so *.so.* *.dylib *.node *.jar *.whl *.pyc *.pth *.wasm
        *.lnk *.awk *.applescript crontab *.cron rc.local""",
    "says what is installed or built, and how": """
        package.json package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml bun.lock
        bun.lockb bunfig.toml deno.json deno.jsonc deno.lock lerna.json nx.json project.json turbo.json
        rush.json bower.json jsr.json import_map.json tsconfig*.json jsconfig*.json pyproject.toml setup.py
        setup.cfg *requirements*.txt *requirements*.in constraints*.txt pipfile pipfile.lock poetry.lock
        poetry.toml pdm.toml pdm.lock uv.lock uv.toml pixi.toml pixi.lock environment*.yml environment*.yaml
        manifest.in hatch.toml mypy.ini ruff.toml cargo.toml cargo.lock build.rs rust-toolchain
        rust-toolchain.toml go.mod go.sum go.work go.work.sum gemfile gemfile.lock gems.rb gems.locked *.gemspec
        composer.json composer.lock mix.exs mix.lock rebar.config rebar.lock pom.xml build.xml *.gradle
        *.gradle.kts gradle.properties gradle-wrapper.properties gradlew mvnw build.sbt plugins.sbt project.clj
        deps.edn *.cabal cabal.project* stack.yaml dune-project *.opam package.swift podfile podfile.lock
        cartfile *.podspec *.csproj *.fsproj *.vbproj *.vcxproj *.sln *.slnx *.props *.targets nuget.config
        packages.config global.json pubspec.yaml pubspec.lock flake.nix flake.lock *.nix *.rockspec *.pbxproj
        *.xcconfig *.nimble build.zig build.zig.zon shard.yml project.toml manifest.toml""",
    "runs when a project is built, tested or opened": """
        makefile gnumakefile bsdmakefile makefile.* *.mk *.mak kbuild justfile *.just taskfile taskfile.*
        rakefile *.rake guardfile capfile fastfile appfile brewfile thorfile dangerfile* cmakelists.txt *.cmake
        cmakepresets.json cmakeuserpresets.json configure configure.* *.m4 *.ac *.am *.in meson.build
        meson_options.txt meson.options build.ninja sconstruct sconscript wscript build build.bazel workspace
        workspace.bazel module.bazel *.bzl *.star tiltfile earthfile noxfile.py tox.ini pytest.ini conftest.py
        sitecustomize.py usercustomize.py tasks.py fabfile.py dodo.py manage.py gunicorn.conf.py *.config.*
        *.conf.js *.conf.ts *.setup.js *.setup.ts gulpfile* gruntfile* jakefile* webpack.* rollup.* vite.*
        vitest.* karma.* *.code-workspace *.sublime-project dockerfile dockerfile.* *.dockerfile containerfile*
        docker-compose* compose.y*ml docker-bake.* vagrantfile procfile procfile.* skaffold.yaml
        devcontainer.json devbox.json mise.toml lefthook.* pre-commit* renovate.json* dependabot.y*ml""",
    "is CI, or deploys": """
        jenkinsfile* azure-pipelines* bitbucket-pipelines* appveyor* cloudbuild* buildspec* circle.y*ml
        codemagic.yaml wercker.yml drone.y*ml travis.y*ml screwdriver.yaml codeship-* netlify.toml vercel.json
        now.json fly.toml wrangler.* app.yaml app.json firebase.json serverless.* samconfig.toml template.yaml
        *.tf *.tfvars *.tf.json *.hcl pulumi.* chart.yaml values*.yaml kustomization.y*ml ansible.cfg
        playbook*.yml render.yaml railway.*""",
    "says what agents do": """
        claude.md claude.local.md claude.json agents.md agents.override.md agent.md gemini.md
        copilot-instructions.md opencode.json* codex.* mcp.json mcp*.json mcp_settings.json *.mdc skill.md
        llms.txt supervisor.toml supervisor.db*""",
    "belongs to others than this project": """
        node_modules bower_components site-packages dist-packages __pycache__ venv env virtualenv vendor
        third_party __pypackages__ pods carthage""",
    "is run by git or by other programs": """
        hooks githooks git-hooks hook.d *.d init.d cron.* husky gitmodules gitattributes""",
}
"""Shapes of names, of files and of folders, with what they are."""
_SHAPES: Final = {why: re.compile("|".join(map(translate, names.split()))) for why, names in _NOT_COVERED.items()}
_ODD: Final = re.compile(r"[\\:*?\"<>|~,]|[. ]$|^ ")
_SYSTEM: Final = frozenset(
    """
    Applications Library System Volumes bin boot dev etc lib lib32 lib64 libx32 opt proc run sbin snap sys usr
    """.casefold().split()
)
_HOMES: Final = frozenset(("home", "users"))


def pattern_of(folder: str) -> str:
    """Return the pattern that covers edits inside a folder."""
    return f"{INSIDE}{folder}"


def folder_in(pattern: str | None) -> str | None:
    """Return the folder of a pattern of edits; None for any other pattern."""
    folder = pattern.removeprefix(INSIDE) if pattern is not None and pattern.startswith(f"{INSIDE}/") else None
    return folder if folder is None or "\n" not in folder else None


def normalise(pattern: str) -> str:
    """Return a pattern of edits as it is kept."""
    folder = (folder_in(pattern) or "/").removesuffix(paths.BELOW)
    return pattern_of(paths.spelled(folder or "/", None) or "/")


def like(tool: str) -> tuple[str, ...]:
    """Return the other tools whose edits are those of a tool."""
    return tuple(name for name in EDITORS if name != tool) if tool in EDITORS else ()


def why_no_folder(folder: str) -> str | None:
    """Return why a folder is none to grant edits in; None if it is one."""
    names = [each for each in folder.split("/") if each]
    first = names[0].casefold() if names else ""
    if len(names) < 2 or first in _SYSTEM or (first in _HOMES and len(names) == 2):
        return f"{folder} is a root, a home or a folder of the system: name a folder of a project"
    return _why_names(names)


def why_not_covered(path: str) -> str | None:
    """Return why an absolute path is not covered by the grant of a folder above it; None if it may be."""
    return _why_names(path.split("/")[1:])


def covers(
    pattern: str,
    arguments: Mapping[str, Any],
    edited: Collection[str],
    named: Collection[str],
    folder: str | None,
    settled: paths.Settled,
) -> bool:
    """Return whether the grant of a folder covers a call. `edited`: the names of the arguments that are files which it
    edits; `named`: of those that are paths at all. A call with a path that it does not edit is not covered."""
    wanted = folder_in(pattern)
    if wanted is None or not edited or not {*named} <= {*edited}:
        return False
    place = settled.get(wanted)
    if place is None or why_no_folder(wanted) or why_no_folder(place):
        return False
    return all(
        each is not None and _is_inside(each, (wanted, place), place, folder, settled)
        for each in paths.paths_of(arguments, edited)
    )


def _is_inside(given: str, spelled_in: Collection[str], place: str, folder: str | None, settled: paths.Settled) -> bool:
    path = paths.spelled(given, folder)
    leads = None if path is None else settled.get(path)
    if (
        path is None
        or leads is None
        or given.endswith("/")
        or paths.climbs(given, folder)
        or _marked(path, leads, settled)
    ):
        return False
    is_there = leads.startswith(f"{place}/") and path.startswith(tuple(f"{each}/" for each in spelled_in))
    names = given if given.startswith("/") else f"/{given}"
    return is_there and not any(why_not_covered(each) for each in (names, path, leads))


def _marked(path: str, leads: str, settled: paths.Settled) -> bool:
    return any((each + MARKED) in settled for each in (path, leads))


def _why_names(names: Collection[str]) -> str | None:
    for name in names:
        if name in ("", ".", ".."):  # of the spelling that was given; what it leads to has none
            continue
        if not name.isprintable() or _ODD.search(name):
            return f"{name!r} means another name on some systems"
        plain = normalize("NFKC", name).casefold()
        if not plain.isprintable() or _ODD.search(plain) or "/" in plain:
            return f"{name!r} looks like another name"
        if (why := next((why for why, shape in _SHAPES.items() if shape.match(plain)), None)) is not None:
            return f"{name} {why}"
    return None
