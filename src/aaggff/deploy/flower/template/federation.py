"""The whole federation on this machine: a SuperLink, a SuperNode for each site, and one run.

    python make_keys.py
    python federation.py                                  # the settings of pyproject.toml
    python federation.py rounds=5 method=term method-options=lam=2

Everything it starts ends with it. The record and the server's state are in run/, so that started
again it goes on where it stopped; Flower's own files and all logs are in flower-home/.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from fairapp.task import SITES

from aaggff.deploy.flower.local_federation import LocalFederation
from aaggff.errors import UserError

HERE = Path(__file__).resolve().parent
DAY = 86_400.0


def main() -> None:
    settings: dict[str, object] = {"directory": HERE / "run", "start-timeout": 120.0}
    for word in sys.argv[1:]:
        name, equals, value = word.partition("=")
        if not equals or not name:
            sys.exit(f"{word!r} is not NAME=VALUE; {__doc__}")
        settings[name] = value
    # Ended by whoever started it, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    directory = Path(str(settings["directory"]))
    with LocalFederation(HERE, HERE / "flower-home", sites=len(SITES)) as federation:
        federation.check(settings)
        federation.start()
        run = federation.submit(settings)
        print(f"run {run}: {len(SITES)} sites; logs are in {federation.home}", flush=True)
        for record in federation.follow(run, directory, timeout=DAY):
            shares = zip(record["clients"], record["losses"], record["weights"])
            told = ", ".join(f"{SITES[site]} {loss:.3f} x {w:.3f}" for site, loss, w in shares)
            print(f"round {record['round']} (loss x weight): {told}", flush=True)
    print(f"done; see it with: aaggff report {directory} -o report.html")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("stopped; started again it goes on where it stopped")
