#!/usr/bin/env python3
"""Pack the patched wheel and what it imports into slices for a GPU host without network.

The host needs Python 3.12, torch 2.11+cu130, triton 3.6, transformers 5.17, numba and
numpy; packages.txt lists the rest, pinned. 0.33.0 names torch 2.14.0, but its core
extension keeps the stable ABI from torch 2.11 on. A line's wheel is packed whole: its Python
over another release's extensions, or in another's folder, would be a mix that nobody serves.

    python ci/gpu/pack.py OUT --wheel dist/vllm-0.33.0+gdnwindow.1-...whl

writes OUT/bundle-00 (all but the core extension: enough for tests of Triton kernels) and
OUT/bundle-01 (the core extension), archives that ci/gpu/site.sh unpacks there, and with --ray
OUT/bundle-02, the release of Ray that 0.33.0's requirements name, less its libraries. Left out:
FlashInfer, cutlass-dsl, tilelang, DeepGEMM, FlashAttention 2 and the MoE extension. So
pick the Triton GDN prefill backend (additional_config {"gdn_prefill_backend": "triton"})
and VLLM_USE_FLASHINFER_SAMPLER=0; full attention uses FlashAttention 3.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLATFORMS = [f"manylinux_2_{n}_x86_64" for n in (39, 38, 35, 34, 31, 28, 27, 24, 17, 12, 5)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
CORE = "vllm/_C_stable_libtorch.abi3.so"
# Stands in for the core extension until bundle-01 is there; Python prefers the extension.
STANDS_IN = "vllm/_C_stable_libtorch.py"
MOST_MIB = 62  # of a slice
EXTENSIONS = {
    "_C_stable_libtorch.abi3.so",
    "cumem_allocator.abi3.so",
    "spinloop.abi3.so",
    "fs_io_C.abi3.so",
    "_rust_tool_parser.abi3.so",
    "_vllm_fa3_C.abi3.so",
}
RAY = ["ray==2.56.1", "msgpack==1.2.4"]
DROP = (
    *(f"ray/{part}/" for part in ("rllib", "jars", "cpp", "serve", "tune", "dashboard/client")),
    "vllm/third_party/deep_gemm/",
    "vllm/third_party/fmha_sm100/",
    "vllm/vllm-rs",
    "pycountry/locales/",
    "mistral_common/data/",
)


def download(specs: list[str], into: Path) -> list[Path]:
    """Wheels for the host's Python, from the configured index."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
    command += ["--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp"]
    for tag in PLATFORMS:
        command += ["--platform", tag]
    subprocess.run([*command, "-d", str(into), *specs], check=True)
    return sorted(into.glob("*.whl"))


def wanted(name: str) -> bool:
    """Whether a wheel's member travels."""
    if name.startswith(DROP) or name.endswith((".pyc", ".jpg", "/")) or "/swagger-ui" in name:
        return False
    if name.startswith("vllm/") and name.endswith(".so"):
        return name.rsplit("/", 1)[-1] in EXTENSIONS
    return True


def unpack(wheel: Path, site: Path) -> None:
    """Lay out what travels of a wheel, programs as programs."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if wanted(member.filename):
                path = Path(archive.extract(member, site))
                if member.external_attr >> 16 & 0o111:
                    path.chmod(0o755)


def files_in(site: Path) -> list[str]:
    return sorted(p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--ray", action="store_true", help="also bundle-02, for that executor")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.out, prefix=".") as scratch:
        site = Path(scratch, "site")
        packages = (HERE / "packages.txt").read_text().split()
        for wheel in [*download(packages, Path(scratch, "wheels")), args.wheel]:
            unpack(wheel, site)
        (site / STANDS_IN).touch()
        paths = files_in(site)
        parts = [[p for p in paths if p != CORE], [CORE]]
        if args.ray:
            for wheel in download(RAY, Path(scratch, "ray")):
                unpack(wheel, site)
            parts.append(sorted({*files_in(site)} - {*paths}))
        # Whole first, so that slices that do not fit leave the old ones in their place.
        draft = Path(scratch, "slices")
        draft.mkdir()
        for index, names in enumerate(parts):
            packed = draft / f"bundle-{index:02d}"
            with tarfile.open(packed, "w:xz", preset=6) as archive:
                for name in names:
                    archive.add(site / name, name)
            size = packed.stat().st_size / 2**20
            print(f"{packed.name} {size:.1f} MiB", flush=True)
            if size > MOST_MIB:
                sys.exit(
                    f"{packed.name} is over {MOST_MIB} MiB, so {args.out} is as it was; leave out "
                    f"more in EXTENSIONS or DROP."
                )
        for old in args.out.glob("bundle-*"):
            old.unlink()
        for packed in sorted(draft.iterdir()):
            packed.replace(args.out / packed.name)


if __name__ == "__main__":
    main()
