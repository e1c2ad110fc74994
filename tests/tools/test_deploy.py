"""The files of deploy/ are what they claim to be; tests/deploy looks at what they name."""

from __future__ import annotations

import configparser
import copy
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import dockerfile_parse
import kubernetes_validate
import pytest

from tools.project import Project

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
sys.path[:0] = [str(ROOT / "tests" / "deploy"), str(DEPLOY / "grafana")]

import make_dashboard  # noqa: E402
import serve_lines  # noqa: E402

UNIT = DEPLOY / "systemd" / "vllm-gdnwindow.service"
KUBERNETES = "1.33"  # the schemas that judge the manifests
MANIFESTS = dict(serve_lines.manifests())


# ---- systemd ---------------------------------------------------------------------------------


def unit(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=True)
    setattr(parser, "optionxform", str)  # noqa: B010 - keys have capitals; mypy takes it for a method
    parser.read_string("\n".join(serve_lines.joined(text)))
    return parser


def verified(text: str, folder: Path) -> str:
    """What systemd says of a unit whose programs are there."""
    program = folder / "bin" / "program"
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = folder / UNIT.name
    for name in ("python", "vllm"):
        text = text.replace(f"/opt/vllm-gdnwindow/bin/{name}", str(program))
    path.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stderr


def test_the_unit_is_one(tmp_path: Path) -> None:
    text = UNIT.read_text()
    found = unit(text)
    service = found["Service"]
    assert service["ExecStart"].startswith("/opt/vllm-gdnwindow/bin/vllm serve ${MODEL} ")
    assert service["ExecStartPre"].endswith("-m vllm.series_provenance")
    assert found["Install"]["WantedBy"] == "multi-user.target"
    words = serve_lines.of_text(UNIT)[0]
    wait = int(words[words.index("--shutdown-timeout") + 1])
    assert int(service["TimeoutStopSec"]) > wait
    # A server whose engine was killed ends with exit code 0, as upstream's does.
    assert service["Restart"] == "always"
    if shutil.which("systemd-analyze"):
        assert verified(text, tmp_path) == ""
        assert "Unknown key" in verified(text.replace("KillMode", "KilMode"), tmp_path)


def test_the_example_sets_what_the_unit_reads() -> None:
    lines = UNIT.with_suffix(".env").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert settings["MODEL"]
    state = f"/var/lib/{unit(UNIT.read_text())['Service']['StateDirectory']}"
    folders = [value for value in settings.values() if value.startswith("/")]
    assert len(folders) >= 3
    assert all(folder.startswith(state) for folder in folders)


# ---- containers ------------------------------------------------------------------------------


def test_the_recipe_installs_this_wheel_and_checks_it() -> None:
    recipe = (DEPLOY / "docker" / "Dockerfile").read_text()
    parsed = dockerfile_parse.DockerfileParser(fileobj=io.BytesIO(recipe.encode()))
    steps = [(step["instruction"], step["value"]) for step in parsed.structure]
    known = {
        "ARG", "CMD", "COMMENT", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "RUN", "USER",
        "VOLUME", "WORKDIR",
    }  # fmt: skip
    assert {name for name, _ in steps} <= known
    assert parsed.baseimage.startswith("nvidia/cuda:13.")
    values: dict[str, list[str]] = {name: [] for name in known}
    for name, value in steps:
        values[name].append(value)
    assert values["COPY"][0].startswith(f"vllm-{Project(ROOT).pin.full_version}-cp38-abi3-")
    install = next(value for value in values["RUN"] if "pip install" in value)
    assert install.endswith("python -m vllm.series_provenance")
    assert json.loads(values["ENTRYPOINT"][0]) == ["vllm", "serve"]
    assert json.loads(values["CMD"][0])[0] == "Qwen/Qwen3.5-0.8B"
    assert [name for name, _ in steps].index("USER") < [name for name, _ in steps].index("CMD")


# ---- Kubernetes ------------------------------------------------------------------------------


def invalid(manifest: dict[str, Any]) -> str:
    try:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        return str(error.message)
    return ""


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_valid(name: str) -> None:
    assert invalid(MANIFESTS[name]) == ""


def test_an_invalid_manifest_is_seen() -> None:
    wrong = copy.deepcopy(MANIFESTS["deployment.yaml"])
    pod = wrong["spec"]["template"]["spec"]
    pod["containers"][0]["livenesProbe"] = pod["containers"][0].pop("livenessProbe")
    assert "livenesProbe" in invalid(wrong)


def test_manifests_fit_together() -> None:
    deployment, service, cache = (
        MANIFESTS[f"{name}.yaml"] for name in ("deployment", "service", "cache")
    )
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert service["spec"]["ports"][0]["targetPort"] in ports
    assert container["args"][container["args"].index("--port") + 1] == str(ports["http"])
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[kind]["httpGet"] == {"path": "/health", "port": "http"}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes.keys()
    claim = volumes["cache"]["persistentVolumeClaim"]["claimName"]
    assert claim == cache["metadata"]["name"]
    assert volumes["shm"]["emptyDir"]["medium"] == "Memory"
    gpus = {kind: values["nvidia.com/gpu"] for kind, values in container["resources"].items()}
    assert gpus == {"requests": "1", "limits": "1"}
    wait = int(container["args"][container["args"].index("--shutdown-timeout") + 1])
    assert spec["terminationGracePeriodSeconds"] > wait


# ---- Ray, Grafana ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["node.sh", "serve.sh"])
def test_scripts_of_the_cluster_say_how_they_are_used(name: str) -> None:
    script = DEPLOY / "ray" / name
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    done = subprocess.run([str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: deploy/ray/")


@pytest.mark.parametrize(
    ("series", "code", "said"),
    [
        ("abc", 0, "ray start --block --address=10.0.0.1:6379"),
        ("abd", 1, "has series abc, not abd"),
    ],
)
def test_a_node_of_another_series_does_not_join(
    series: str, code: int, said: str, tmp_path: Path
) -> None:
    for name, text in (("python", "echo 'series   abc'"), ("ray", 'echo "ray $*"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [str(DEPLOY / "ray" / "node.sh"), "worker", "10.0.0.1"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "VLLM_HOST_IP": "10.0.0.2", "SERIES": series},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code
    assert said in done.stdout + done.stderr


def test_the_dashboard_is_what_its_script_writes() -> None:
    assert make_dashboard.main(["--check"]) == 0
    panels = json.loads(make_dashboard.OUT.read_text())["panels"]
    places = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels]
    assert len(set(places)) == len(places) == len(make_dashboard.PANELS)
    assert all(target["expr"].count("(") == target["expr"].count(")")
               for one in panels for target in one["targets"])  # fmt: skip


def test_a_stale_dashboard_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_dashboard, "PANELS", make_dashboard.PANELS[:-1])
    assert make_dashboard.main(["--check"]) == 1
