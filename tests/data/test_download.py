"""Downloads against a real server: resumed, checked, from the next mirror, or one clear line."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from aaggff.data import download as module
from aaggff.data.download import differs, download, enough_space
from aaggff.errors import UserError
from tests.data.loopback import Loopback, loopback, raw, stalled, status, whole

CONTENT = bytes(range(256)) * 2_000
SHA = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback() as server:
        yield server


def part(target: Path) -> Path:
    return target.with_name(f".{target.name}.part")


def leave_part(target: Path, content: bytes, url: str, version: str | None = '"one"') -> None:
    """As an interrupted download leaves it."""
    part(target).write_bytes(content)
    facts = {"url": url, "version": version}
    part(target).with_name(part(target).name + ".json").write_text(json.dumps(facts))


def test_a_file_arrives_whole_and_alone(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a.bin"] = [whole(CONTENT)]
    seen: list[tuple[int, int | None]] = []
    target = download(
        [server.url("/a.bin")],
        tmp_path / "new" / "a.bin",
        size=len(CONTENT),
        checksum=SHA,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["a.bin"]
    assert seen[0] == (0, len(CONTENT))
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_md5_is_checked_too(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a"] = [whole(CONTENT)]
    good = "md5:" + hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
    download([server.url("/a")], tmp_path / "a", checksum=good)
    with pytest.raises(UserError, match="its md5 is"):
        download([server.url("/a")], tmp_path / "b", checksum="md5:" + "0" * 32)


def test_a_cut_connection_is_resumed_where_it_ended(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a"] = [whole(CONTENT, cut=100_000), whole(CONTENT, cut=50_000), whole(CONTENT)]
    target = download([server.url("/a")], tmp_path / "a", pause=0)
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]


def test_an_interrupted_download_goes_on_in_the_next_call(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a"] = [whole(CONTENT)]
    leave_part(tmp_path / "a", CONTENT[:70_000], server.url("/a"))
    assert download([server.url("/a")], tmp_path / "a").read_bytes() == CONTENT
    assert server.ranges == ["bytes=70000-"]


def test_a_changed_file_is_fetched_afresh(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a"] = [whole(CONTENT, tag='"two"')]
    leave_part(tmp_path / "a", b"old" * 1_000, server.url("/a"))
    assert download([server.url("/a")], tmp_path / "a").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_afresh(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a"] = [whole(CONTENT, ranges=False, cut=10_000), whole(CONTENT, ranges=False)]
    assert download([server.url("/a")], tmp_path / "a", pause=0).read_bytes() == CONTENT


def test_without_a_version_or_a_checksum_nothing_is_resumed(
    server: Loopback, tmp_path: Path
) -> None:
    server.answers["/a"] = [whole(CONTENT, tag=None)]
    leave_part(tmp_path / "a", b"old" * 1_000, server.url("/a"), version=None)
    assert download([server.url("/a")], tmp_path / "a").read_bytes() == CONTENT
    assert server.ranges == [None]


def test_a_wrong_range_is_noticed(server: Loopback, tmp_path: Path) -> None:
    """A server that answers 206 with other bytes than asked for would corrupt the file."""
    wrong = raw(
        206,
        CONTENT[:500],
        Content_Range=f"bytes 0-499/{len(CONTENT)}",
        Content_Length="500",
    )
    server.answers["/a"] = [wrong, whole(CONTENT)]
    leave_part(tmp_path / "a", CONTENT[:70_000], server.url("/a"))
    assert download([server.url("/a")], tmp_path / "a", pause=0).read_bytes() == CONTENT
    assert server.ranges == ["bytes=70000-", None]


def test_a_complete_part_only_needs_its_name(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a"] = [whole(CONTENT)]
    leave_part(tmp_path / "a", CONTENT, server.url("/a"))
    assert download([server.url("/a")], tmp_path / "a").read_bytes() == CONTENT
    assert server.ranges == [f"bytes={len(CONTENT)}-"]


def test_a_part_longer_than_the_file_is_thrown_away(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a"] = [whole(CONTENT)]
    leave_part(tmp_path / "a", CONTENT + b"more", server.url("/a"))
    assert download([server.url("/a")], tmp_path / "a", pause=0).read_bytes() == CONTENT


def test_a_corrupt_part_is_replaced_before_the_address_is_blamed(
    server: Loopback, tmp_path: Path
) -> None:
    server.answers["/a"] = [whole(CONTENT)]
    leave_part(tmp_path / "a", b"x" * 70_000, server.url("/elsewhere"))
    got = download([server.url("/a")], tmp_path / "a", checksum=SHA)
    assert got.read_bytes() == CONTENT
    assert server.ranges == ["bytes=70000-", None]


def test_404_goes_to_the_mirror(server: Loopback, tmp_path: Path) -> None:
    server.answers["/mirror"] = [whole(CONTENT)]
    urls = [server.url("/gone"), server.url("/mirror")]
    assert download(urls, tmp_path / "a").read_bytes() == CONTENT
    assert len(server.ranges) == 2


def test_a_wrong_checksum_goes_to_the_mirror_and_then_fails(
    server: Loopback, tmp_path: Path
) -> None:
    server.answers["/bad"] = [whole(CONTENT[::-1])]
    server.answers["/good"] = [whole(CONTENT)]
    target = tmp_path / "a"
    assert download([server.url("/bad"), server.url("/good")], target, checksum=SHA).exists()
    target.unlink()
    with pytest.raises(UserError) as error:
        download([server.url("/bad")], target, checksum=SHA)
    assert "a cannot be downloaded" in str(error.value)
    assert SHA.removeprefix("sha256:") in str(error.value)
    assert not target.exists()
    assert not part(target).exists()


def test_a_wrong_size_is_refused_before_it_is_downloaded(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a"] = [whole(CONTENT)]
    with pytest.raises(UserError, match="has 512,000 bytes where 7 are published"):
        download([server.url("/a")], tmp_path / "a", size=7)
    assert not part(tmp_path / "a").exists()


def test_more_than_promised_is_refused(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a"] = [raw(200, CONTENT, Connection="close")]
    with pytest.raises(UserError, match="sent more than the 1,000 bytes"):
        download([server.url("/a")], tmp_path / "a", size=1_000)


def test_less_than_published_without_a_length_is_noticed(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a"] = [raw(200, CONTENT[:9_000], Connection="close")]
    with pytest.raises(UserError, match="the connection ended early"):
        download([server.url("/a")], tmp_path / "a", size=len(CONTENT), pause=0)


def test_redirects_are_followed(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a"] = [whole(CONTENT)]
    server.answers["/old"] = [status(302, Location=server.url("/a"))]
    assert download([server.url("/old")], tmp_path / "a").read_bytes() == CONTENT


def test_a_redirect_away_from_https_or_the_web_is_refused(server: Loopback, tmp_path: Path) -> None:
    server.answers["/plain"] = [status(302, Location="http://example.org/a")]
    server.answers["/file"] = [status(302, Location="file:///etc/hostname")]
    with pytest.raises(UserError, match="is not https and no checksum is published"):
        download([server.url("/plain")], tmp_path / "a", pause=0)
    with pytest.raises(UserError):
        download([server.url("/file")], tmp_path / "a", pause=0)
    assert not (tmp_path / "a").exists()


def test_only_https_unless_a_checksum_vouches(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not https"):
        download(["http://example.org/a"], tmp_path / "a")
    for url in ("file:///etc/hostname", "ftp://example.org/a", "example.org"):
        with pytest.raises(UserError, match="is no web address"):
            download([url], tmp_path / "a")


def test_a_stalled_connection_is_given_up_and_the_mirror_asked(
    server: Loopback, tmp_path: Path
) -> None:
    server.answers["/slow"] = [stalled(server, len(CONTENT), b"")]
    server.answers["/mirror"] = [whole(CONTENT)]
    urls = [server.url("/slow"), server.url("/mirror")]
    got = download(urls, tmp_path / "a", timeout=0.1, pause=0)
    assert got.read_bytes() == CONTENT
    with pytest.raises(UserError, match=r"nothing came for 0\.1 s"):
        download(urls[:1], tmp_path / "b", timeout=0.1, pause=0)


def test_a_stall_halfway_is_resumed(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a"] = [stalled(server, len(CONTENT), CONTENT[:4_096]), whole(CONTENT)]
    got = download([server.url("/a")], tmp_path / "a", timeout=0.2, pause=0)
    assert got.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=4096-"]


def test_a_busy_server_is_asked_again(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a"] = [status(503), status(429), whole(CONTENT)]
    assert download([server.url("/a")], tmp_path / "a", pause=0).read_bytes() == CONTENT
    server.answers["/b"] = [status(503)]
    with pytest.raises(UserError, match="answered 503"):
        download([server.url("/b")], tmp_path / "b", pause=0)


def test_a_web_page_is_not_the_file(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a.zip"] = [raw(200, b"<html>log in</html>", Content_Type="text/html")]
    with pytest.raises(UserError, match="a web page instead of the file"):
        download([server.url("/a.zip")], tmp_path / "a.zip")


def test_nobody_listens(tmp_path: Path) -> None:
    with loopback() as server:
        url = server.url("/a")
    with pytest.raises(UserError, match="refused") as error:
        download([url], tmp_path / "a", pause=0)
    assert "\n" not in str(error.value)


def test_what_came_is_kept_for_the_next_time(server: Loopback, tmp_path: Path) -> None:
    server.answers["/a"] = [whole(CONTENT, cut=9_000), status(500)]
    with pytest.raises(UserError, match="9,000 bytes are kept"):
        download([server.url("/a")], tmp_path / "a", pause=0)
    server.answers["/a"] = [whole(CONTENT)]
    download([server.url("/a")], tmp_path / "a", pause=0)
    assert server.ranges[-1] == "bytes=9000-"


def test_no_space_is_said_before_the_download(
    server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers["/a"] = [whole(CONTENT)]
    monkeypatch.setattr(
        module.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1_000})()
    )
    with pytest.raises(UserError, match="GB are free"):
        download([server.url("/a")], tmp_path / "a")
    with pytest.raises(UserError, match="--data-dir"):
        enough_space(tmp_path, 10)


def test_two_fetches_of_one_folder_do_not_mix(server: Loopback, tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        with pytest.raises(UserError, match="another process is fetching"):
            download([server.url("/a")], tmp_path / "a")
    finally:
        os.close(handle)


def test_differs(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert differs(path, 3, "sha256:" + hashlib.sha256(b"abc").hexdigest()) is None
    assert differs(path, 4) == "3 bytes where 4 are published"
    with pytest.raises(ValueError, match="begins with sha256"):
        differs(path, 3, "crc32:0")
