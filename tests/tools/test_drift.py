"""Commits of the checkout that are not the patches, by name."""

from __future__ import annotations

from collections.abc import Callable

from lineage import FIVE, OLD, THREE
from world import World

Said = Callable[[], str]


def test_what_the_checkout_lacks_and_has_more_is_named(series: World, said: Said) -> None:
    series.git("reset", "-q", "--hard", "HEAD~1")
    series.git("commit", "-q", "--amend", "-m", "Five, otherwise\n\nSeries-Patch: " + FIVE)
    said()
    assert series.run("status") == 0
    want = (
        f"1 commit(s) not in patches/ ({FIVE}): `make refresh`; 1 patch(es) without a commit "
        f"({OLD}): `make apply` brings them back, `make refresh` drops them"
    )
    assert f"vendor/vllm: {want}" in said()
    assert series.run("verify", "--no-import", "--no-quilt") == 0
    assert f"note: patches/ is checked, and vendor/vllm has {want}" in said()
    series.git("reset", "-q", "--hard", "series-base")
    series.git("commit", "-q", "--allow-empty", "-m", "Nothing, which is no patch")
    assert series.run("status") == 0
    message = said()
    assert "Nothing, which is no patch" in message
    assert f"3 patch(es) without a commit ({THREE}, {FIVE}, {OLD})" in message
    assert series.run("apply") == 3
    series.git("checkout", "-q", "-B", "series", "refs/series/applied")
    said()
    assert series.run("verify", "--no-import", "--no-quilt") == 0
    assert "note:" not in said()


def test_checkout_off_the_pinned_release_is_named(series: World, said: Said) -> None:
    series.git("checkout", "-q", "--orphan", "other")
    series.git("commit", "-q", "-m", "Other")
    said()
    assert series.run("status") == 0
    assert f"HEAD is {series.head()[:10]}, which does not stand on the pinned release" in said()


def test_patches_in_another_order_are_named(series: World, said: Said) -> None:
    last = series.head()
    series.git("reset", "-q", "--hard", "HEAD~2")
    for commit in (last, f"{last}~1"):
        series.git("cherry-pick", commit)
    said()
    assert series.run("status") == 0
    assert "the patches in another order: `make refresh`, or `make apply`" in said()


def test_patches_that_a_pull_moved_are_to_be_applied(series: World, said: Said) -> None:
    """Nothing was done in the checkout, so there is nothing to refresh."""
    before = series.head()
    series.edit("vllm/new.py", "import vllm.a\n", "import vllm.b\n")
    series.git("commit", "-qa", "--amend", "--no-edit")
    assert series.run("refresh") == 0
    series.git("checkout", "-q", "-B", "series", before)
    series.git("update-ref", "refs/series/applied", before)
    said()
    assert series.run("verify", "--no-import", "--no-quilt") == 0
    want = "vendor/vllm has another state of the series: `make apply`\n"
    assert f"note: patches/ is checked, and {want}" in said()
    assert series.run("status") == 0
    assert "another state of the series: `make apply`" in said()


def test_malformed_lock_is_a_finding_among_others(series: World, said: Said) -> None:
    series.project.lock.write_text("series_id = \n")
    series.patch(OLD).write_bytes(series.patch(OLD).read_bytes().replace(b"Pending", b"Done"))
    said()
    assert series.run("verify", "--no-import", "--no-quilt") == 1
    message = said()
    assert "series.lock is not valid TOML" in message
    assert f"{OLD}: Upstream-Status: 'Done' is malformed" in message
    assert "verify: 3 patches, 2 findings" in message
