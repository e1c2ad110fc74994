"""What upstreams ask for is data, and every word of it is read."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import proofs
import pytest
from world import World

from tools import cover, pick, policy
from tools.errors import ToolError
from tools.project import Project

Said = Callable[[], str]
ROOT = Path(__file__).parents[2]
REAL = Project(ROOT)


@pytest.mark.parametrize("name", policy.names(REAL))
def test_real_policy_names_what_there_is(name: str) -> None:
    rules = policy.load(REAL, name)
    targets = tomllib.loads((ROOT / "bench" / "targets.toml").read_text())["target"]
    figures = {target["name"] for target in targets}
    series = [
        (line, (ROOT / "patches" / line).read_bytes())
        for line in (ROOT / "series").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert rules.topics
    for topic, about in rules.topics.items():
        assert pick.pick(series, topic).topic == topic
        assert set(about.numbers) <= figures
        for result in about.results:
            table = json.loads((ROOT / "bench" / "results" / result).read_text())
            assert {"host", "command"} <= table.keys()
        assert cover.title(rules, pick.pick(series, topic))
    assert rules.title.fullmatch(rules.example)


def test_upstreams_differ_where_their_rules_do() -> None:
    vllm, fla = (policy.load(REAL, name) for name in ("vllm", "fla"))
    assert (vllm.sign_off, fla.sign_off) == (True, False)
    assert vllm.statement
    assert vllm.ai_trailer in fla.forbidden
    assert not fla.statement
    assert [to for _, to in fla.paths] == ["fla/ops/gdn_recoverssm/", "tests/ops/"]


def test_every_content_has_a_writer() -> None:
    for word in policy.CONTENT:
        assert callable(getattr(cover.Cover, word))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("sign_off = true", "sign_off = 1", "upstream: sign_off is missing or no bool"),
        ("sign_off = true", "", "upstream: sign_off is missing or no bool"),
        ("lines = 500", "lines = true", "size: lines is missing or no int"),
        ("lines = 500", "lines = 500\nlimit = 3", "size: nothing reads 'limit'"),
        ('"claims"', '"boasts"', "section: 'boasts' is no content"),
        ("[title]", "[title", "is not valid TOML"),
        ("\\S.*'", "(\\S.*'", "title.pattern is no pattern"),
        ('statement = "AI assistance was used."', "", "ai: statement is missing or no str"),
        ("[ai]", "[robots]", "ai is missing or no dict"),
        ("[lint.skip]\nslow", "[lint.skip]\nslow = 3\nother", "skip: slow is missing or no str"),
    ],
)
def test_misspelt_policy_is_found(empty: World, old: str, new: str, words: str) -> None:
    proofs.policies(empty)
    path = empty.root / "policy" / "vllm.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ToolError) as stop:
        policy.load(empty.project, "vllm")
    assert words in str(stop.value)
    assert str(stop.value).startswith("policy/vllm.toml")


@pytest.mark.parametrize("name", ["upstream", "title", "size", "ai", "duplicates", "lint"])
def test_every_table_is_read_to_its_last_key(empty: World, name: str) -> None:
    proofs.policies(empty)
    path = empty.root / "policy" / "vllm.toml"
    text = path.read_text()
    assert f"[{name}]\n" in text
    path.write_text(text.replace(f"[{name}]\n", f"[{name}]\nflavour = 1\n"))
    with pytest.raises(ToolError, match=f"{name}: nothing reads 'flavour'"):
        policy.load(empty.project, "vllm")
    path.write_text(f"flavour = 1\n{text}")
    with pytest.raises(ToolError, match=r"policy/vllm\.toml: nothing reads 'flavour'"):
        policy.load(empty.project, "vllm")
