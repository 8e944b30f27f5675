"""`aaggff report` as typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.typed import refused, run
from tests.report.made_runs import write_comparison, write_run


def test_a_page_is_written_where_asked_and_its_size_is_said(tmp_path: Path) -> None:
    write_comparison(tmp_path / "one")
    write_run(tmp_path / "two", method="term")
    out, err = run("report", "one", "two", "-o", "pages/all.html", cwd=tmp_path)
    written = (tmp_path / "pages" / "all.html").read_text()
    assert out.startswith("wrote pages/all.html (")
    assert "kB); open it in a browser" in out
    assert err == ""
    assert "4 methods" in written
    run("report", "two", cwd=tmp_path)
    assert (tmp_path / "report.html").exists()


def test_a_mistake_is_one_line_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    write_run(tmp_path / "run")
    assert "DIR" in refused(capsys, "report")
    assert "nowhere is not a directory" in refused(capsys, "report", "nowhere")
    assert "empty holds no run" in refused(capsys, "report", "empty")
    (tmp_path / "file").write_text("in the way")
    assert "cannot write file/page.html" in refused(capsys, "report", "run", "-o", "file/page.html")
    assert "empty" in refused(capsys, "report", "run", "-o", "empty")
