"""ci/gpu/pack.py: slices of a wheel for a GPU host."""

from __future__ import annotations

import importlib.util
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "ci" / "gpu" / "pack.py"


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with a wheel to pack and no packages beside it."""
    spec = importlib.util.spec_from_file_location("pack", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "download", lambda *_: [])
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        wheel.writestr("vllm/a.py", "value = 1\n")
        wheel.writestr(module.CORE, "core")
        wheel.writestr("vllm/_moe_C.abi3.so", "left out")
    argv = ["pack.py", str(tmp_path / "out"), "--wheel", str(tmp_path / "a.whl")]
    monkeypatch.setattr(sys, "argv", argv)
    return module


def held(out: Path) -> dict[str, list[str]]:
    found = {}
    for path in sorted(out.iterdir()):
        with tarfile.open(path) as archive:
            found[path.name] = sorted(archive.getnames())
    return found


def test_core_extension_has_a_slice_of_its_own(pack: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "bundle-02").write_text("of an older packing")
    pack.main()
    assert held(out) == {
        "bundle-00": ["vllm/_C_stable_libtorch.py", "vllm/a.py"],
        "bundle-01": [pack.CORE],
    }


def test_slices_that_do_not_fit_leave_the_old_ones(
    pack: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack.main()
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert sorted(before) == ["bundle-00", "bundle-01"]
    monkeypatch.setattr(pack, "MOST_MIB", 0)
    with pytest.raises(SystemExit, match=r"bundle-00 is over 0 MiB, so .*out is as it was"):
        pack.main()
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
