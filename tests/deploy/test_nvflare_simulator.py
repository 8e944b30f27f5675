"""A real NVFlare simulation of Heart's four hospitals, in NVFlare's own environment."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from aaggff import Federation
from aaggff.data import heart
from aaggff.federation.local import LocalTraining
from aaggff.report.collect import read_run

pytestmark = [pytest.mark.deploy, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "src" / "aaggff" / "deploy" / "nvflare" / "template"
ROUNDS = 5


@pytest.fixture(scope="module")
def python():
    """NVFlare may not share an environment with Flower: `make nvflare` makes one for it."""
    found = Path(os.environ.get("AAGGFF_NVFLARE_PYTHON", ROOT / ".venv-nvflare" / "bin" / "python"))
    if not found.exists():
        pytest.skip(f"NVFlare's environment is not here: `make nvflare` makes {found}")
    return found


def test_four_hospitals_end_where_the_local_engine_does(python, tmp_path):
    app = tmp_path / "app"
    shutil.copytree(TEMPLATE, app, ignore=shutil.ignore_patterns("__pycache__"))
    finished = subprocess.run(
        [python, "job.py", "--rounds", str(ROUNDS), "--record", str(tmp_path / "record")],
        cwd=app, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]

    local = Federation(
        heart.load(seed=2),
        "logistic",
        "aaggff-s",
        method_options={"cdf": "frechet"},
        local=LocalTraining(lr=0.01, decay=0.999, decay_every=2, batch_size=20, epochs=1),
        seed=2,
    )
    local.run(ROUNDS)
    (saved,) = (app / "workspace").rglob("FL_global_model.pt")
    state = torch.load(saved, weights_only=True)["model"]
    for name, values in local.model.state_dict().items():
        torch.testing.assert_close(torch.as_tensor(state[name]), values, atol=1e-5, rtol=1e-5)

    run = read_run(tmp_path / "record")
    assert [record["round"] for record in run.rounds] == list(range(1, ROUNDS + 1))
    assert run.done["rounds"] == ROUNDS
    assert run.names() == ["site-1", "site-2", "site-3", "site-4"]
    assert json.loads((tmp_path / "record" / "done.json").read_text())["metric"] == "auroc"


def test_the_exported_job_names_the_aggregator_and_ships_the_task(python, tmp_path):
    app = tmp_path / "app"
    shutil.copytree(TEMPLATE, app, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [python, "job.py", "--export", "--export-dir", "jobs"], cwd=app, check=True, timeout=120,
        capture_output=True,
    )  # fmt: skip
    written = list((app / "jobs").rglob("*"))
    configs = "".join(path.read_text() for path in written if path.suffix == ".json")
    assert "aaggff.deploy.nvflare.aggregator.FairAggregator" in configs
    assert {path.name for path in written if path.suffix == ".py"} == {"task.py", "client.py"}


JOB_THAT_WAITS_FOR_THREE = """
import sys

from nvflare import FedJob
from nvflare.app_common.shareablegenerators.full_model_shareable_generator import (
    FullModelShareableGenerator,
)
from nvflare.app_common.workflows.scatter_and_gather import ScatterAndGather
from nvflare.app_opt.pt.job_config.model import PTModel
from nvflare.client.config import TransferType
from nvflare.job_config.script_runner import ScriptRunner

from aaggff.deploy.nvflare import FairAggregator

if __name__ == "__main__":
    job = FedJob(name="fair", min_clients=3)
    job.set_app_packages(["aaggff"])
    model = PTModel({"path": "task.make_model", "args": {}})
    aggregator = FairAggregator(clients=4, planned=3, directory=sys.argv[1], metric="auroc")
    job.to_server(ScatterAndGather(
        min_clients=3, num_rounds=3, wait_time_after_min_received=10,
        persistor_id=job.to_server(model)["persistor_id"],
        aggregator_id=job.to_server(aggregator, id="aggregator"),
        shareable_generator_id=job.to_server(FullModelShareableGenerator(), id="generator"),
    ))
    job.to_server("task.py")
    for site in ("site-1", "site-2", "site-3", "site-4"):
        job.to(ScriptRunner("client.py", params_transfer_type=TransferType.DIFF), site)
        job.to("task.py", site)
    job.simulator_run("workspace")
"""


def test_a_site_that_falls_silent_is_a_drop_out(python, tmp_path):
    """NVFlare's FedAvg waits for all; ScatterAndGather goes on with those who are there."""
    app = tmp_path / "app"
    shutil.copytree(TEMPLATE, app, ignore=shutil.ignore_patterns("__pycache__"))
    (app / "job.py").write_text(JOB_THAT_WAITS_FOR_THREE)
    text = (app / "client.py").read_text()
    line = "        received = flare.receive()\n"
    assert line in text
    sleeps = "        if client == 2 and received.current_round:\n            time.sleep(25)\n"
    text = text.replace(line, line + sleeps).replace("import numpy", "import time\n\nimport numpy")
    (app / "client.py").write_text(text)
    finished = subprocess.run(
        [python, "job.py", str(tmp_path / "record")],
        cwd=app, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]
    first, second, third = read_run(tmp_path / "record").rounds
    assert first["clients"] == ["site-1", "site-2", "site-3", "site-4"]
    assert first["dropped"] == []
    assert second["clients"] == ["site-1", "site-2", "site-4"]
    assert second["dropped"] == ["site-3"]
    for each in (first, second, third):
        assert sum(each["weights"]) == pytest.approx(1.0)
