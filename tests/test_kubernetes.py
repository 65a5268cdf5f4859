"""The resources of deploy/kubernetes and deploy/temporal: strict YAML, valid by the schemas of Kubernetes, and what
they name is there. And the compose file of docs/how-to/postgresql.md.

The schemas are those of the package kubernetes-validate, as `.ci/run` downloads it to `.peers`; it is not installed,
since its file is read as it is. `kubectl kustomize` renders the resources where there is one.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from inspect import signature
from pathlib import Path

import jsonschema
import pytest
import yaml

from supervisor.cli.worker import worker
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.store_urls import read_temporal_url
from supervisor.store.postgres.server import Address
from supervisor.system.loading import load_agents
from supervisor.temporal.worker.worker import STOPPED_AFTER_SECONDS

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "deploy/kubernetes"
WORKERS = ROOT / "deploy/temporal"
VERSIONS = ("v1.30.0", "v1.37.0")


class Strict(yaml.SafeLoader):
    """Refuses a key that is there twice, which YAML parsers otherwise take as the last one."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key is there twice: {keys} {node.start_mark}"
        return super().construct_mapping(node, deep)


def resources(folder=FOLDER):
    """Return all resources, as kubectl renders them, or as they are written."""
    kustomization = yaml.load((folder / "kustomization.yaml").read_text(), Strict)
    texts = [(folder / name).read_text() for name in kustomization["resources"]]
    written = [each for text in texts for each in yaml.load_all(text, Strict)]
    if shutil.which("kubectl") is None:
        return written
    rendered = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True)
    assert rendered.returncode == 0, rendered.stderr
    found = list(yaml.load_all(rendered.stdout, Strict))
    assert {each["kind"] for each in found} == {each["kind"] for each in written} | {"ConfigMap"}
    return found


def pods(folder=FOLDER):
    found = [each for each in resources(folder) if "template" in each.get("spec", ())]
    return {each["metadata"]["name"]: each["spec"]["template"] for each in found}


def named(kind):
    return {each["metadata"]["name"]: each for each in resources() if each["kind"] == kind}


@pytest.mark.parametrize("version", VERSIONS)
def test_each_resource_is_valid_by_the_strict_schema_of_kubernetes(version):
    """A key that Kubernetes does not know is an error, too."""
    found = next(iter((ROOT / ".peers/kubernetes").glob("*.whl")), None)
    if found is None:
        pytest.skip(
            "the schemas are not here: pip download --no-deps --dest .peers/kubernetes kubernetes-validate==1.37.0"
        )
    with zipfile.ZipFile(found) as package:
        name = f"kubernetes_validate/kubernetes-json-schema/{version}-local-strict/_definitions.json"
        definitions = json.loads(package.read(name))["$defs"]
    kinds = {}
    for key, definition in definitions.items():
        said = definition.get("properties", {})
        if all("enum" in said.get(name, {}) for name in ("apiVersion", "kind")):
            kinds[*said["apiVersion"]["enum"], *said["kind"]["enum"]] = key
    for resource in (*resources(), *resources(WORKERS)):
        schema = {"$ref": f"#/$defs/{kinds[resource['apiVersion'], resource['kind']]}", "$defs": definitions}
        validator = jsonschema.Draft202012Validator(schema)
        faults = [each.message for each in validator.iter_errors(resource)]
        assert faults == [], f"{resource['kind']} {resource['metadata']['name']}"
        assert not validator.is_valid({**resource, "spek": {}})


def test_the_resources_name_what_is_there():
    """Volumes, ports, selectors, the host of the store's URL, and its password where libpq takes it."""
    services = named("Service")
    for name, pod in pods().items():
        assert services[name]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        claims = [each["spec"].get("volumeClaimTemplates", ()) for each in named("StatefulSet").values()]
        volumes = {each["name"] for each in pod["spec"]["volumes"]} | {
            c["metadata"]["name"] for all_ in claims for c in all_
        }
        containers = pod["spec"]["containers"] + pod["spec"].get("initContainers", [])
        for container in containers:
            assert {each["name"] for each in container["volumeMounts"]} <= volumes
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
        ports = {port["name"] for container in containers for port in container.get("ports", ())}
        assert {port["targetPort"] for port in services[name]["spec"]["ports"]} <= ports
    (daemon,) = pods()["supervisor"]["spec"]["containers"]
    environment = {each["name"]: each["value"] for each in daemon["env"]}
    address = Address(environment["SUPERVISOR_STORE"])
    assert address.name == "postgresql://postgres:5432/agents?schema=payments"
    (copies,) = pods()["supervisor"]["spec"]["initContainers"]
    assert copies["command"][:2] == ["install", "--mode=0600"]  # libpq ignores one that others can read
    assert copies["command"][-1] == environment["PGPASSFILE"]
    assert "@" not in environment["SUPERVISOR_STORE"].partition("@")[2]
    assert ":" not in environment["SUPERVISOR_STORE"].partition("//")[2].partition("@")[0]  # no password


def test_workers_are_probed_where_they_answer_and_have_the_time_to_leave():
    """Their options are those of the command, their store is a URL of Temporal, and the queue is that of a tool. Their
    secret is made as docs/how-to/temporal-cloud.md says."""
    page = (ROOT / "docs/how-to/temporal-cloud.md").read_text()
    assert re.findall(r"secret generic (\w+) --namespace agents --from-file=(\w+)=", page) == [("temporal", "key")]
    (spec,) = load_agents(str(WORKERS / "agents/agents.py")).values()
    tools = {each.queue for each in vars(sys.modules[spec.fn.__module__]).values() if isinstance(each, ToolSpec)}
    for pod in pods(WORKERS).values():
        (container,) = pod["spec"]["containers"]
        command, file, *options = container["args"]
        assert (command, file) == ("worker", "agents.py")
        given = dict(zip(options[::2], options[1::2], strict=True))
        known = signature(worker).parameters
        assert {each.removeprefix("--").replace("-", "_") for each in given} <= known.keys()
        assert given.get("--queue") in tools
        (port,) = container["ports"]
        assert given["--probes"] == f"0.0.0.0:{port['containerPort']}"
        probes = [container[each]["httpGet"] for each in ("startupProbe", "livenessProbe", "readinessProbe")]
        assert [each["path"] for each in probes] == ["/live", "/live", "/ready"]
        assert {each["port"] for each in probes} == {port["name"]}
        assert float(given["--leave"]) + STOPPED_AFTER_SECONDS < pod["spec"]["terminationGracePeriodSeconds"]
        environment = {each["name"]: each["value"] for each in container["env"]}
        assert read_temporal_url(environment["SUPERVISOR_STORE"]).target.endswith(".tmprl.cloud:7233")
        assert [each["secret"]["secretName"] for each in pod["spec"]["volumes"] if "secret" in each] == ["temporal"]
        (key,) = [each["secret"]["items"][0]["path"] for each in pod["spec"]["volumes"] if "secret" in each]
        assert environment["SUPERVISOR_TEMPORAL_API_KEY_FILE"] == f"/run/secrets/temporal/{key}"


def test_the_configuration_of_the_pods_is_one_that_serve_takes(tmp_path):
    """It is checked as `supervisor check` does before a deployment; its agents load."""
    shutil.copytree(FOLDER / "agents", tmp_path / "agents")
    assert tomllib.loads((tmp_path / "agents/supervisor.toml").read_text())["server"]["host"] == "0.0.0.0"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SUPERVISOR")}
    done = subprocess.run(
        [sys.executable, "-m", "supervisor", "check", "supervisor.toml"],
        capture_output=True, text=True, cwd=tmp_path / "agents", env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_makes_the_secret_that_the_pods_take():
    """docs/how-to/kubernetes.md makes it with the keys that the volumes ask for."""
    page = (ROOT / "docs/how-to/kubernetes.md").read_text()
    (command,) = re.findall(r"\$ (kubectl create secret generic (?:.*\\\n)*.*)", page)
    made = set(re.findall(r"--from-(?:literal|file)=(\w+)=", command))
    wanted = {
        item["key"]
        for pod in pods().values()
        for volume in pod["spec"]["volumes"]
        for item in volume.get("secret", {}).get("items", ())
    }
    assert made == wanted == {"password", "pgpass"}


def test_the_compose_file_of_the_guide_names_what_it_has():
    """Secrets, volumes and services; its daemon finds the server, and no password is in the URL."""
    page = (ROOT / "docs/how-to/postgresql.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    compose = yaml.load(block, Strict)
    services = compose["services"]
    assert {name for each in services.values() for name in each["secrets"]} == compose["secrets"].keys()
    environment = services["supervisor"]["environment"]
    assert Address(environment["SUPERVISOR_STORE"]).name == "postgresql://postgres:5432/agents?schema=payments"
    assert environment["PGPASSFILE"] == f"/run/secrets/{services['supervisor']['secrets'][0]}"
    assert services["supervisor"]["depends_on"].keys() <= services.keys()
    assert (ROOT / "deploy" / services["supervisor"]["build"]["context"] / "deploy/Dockerfile").exists()
