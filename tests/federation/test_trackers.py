"""What TensorBoard and MLflow are told."""

import sys
from types import SimpleNamespace

import pytest

from aaggff.errors import UserError
from aaggff.federation.config import RunConfig
from aaggff.federation.federation import Federation
from aaggff.federation.run import train
from aaggff.federation.trackers import MLflow, TensorBoard, figures
from tests.federation.makers import binary_data

CONFIG = RunConfig.for_dataset("heart", rounds=4, evaluate_every=2)


def test_tensorboard_gets_every_round_and_every_evaluation(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = train(CONFIG, callbacks=[TensorBoard(tmp_path)])
    read = EventAccumulator(str(tmp_path), size_guidance={"histograms": 0, "scalars": 0})
    read.Reload()
    tags = read.Tags()
    assert [event.step for event in read.Scalars("round/objective")] == [1, 2, 3, 4]
    assert [event.step for event in read.Scalars("metric/avg")] == [2, 4]
    assert read.Scalars("metric/avg")[-1].value == pytest.approx(result.metric["avg"], rel=1e-6)
    assert read.Scalars("loss/worst_client")[-1].value == pytest.approx(
        result.loss["worst_client"], rel=1e-6
    )
    assert {"regret/regret", "regret/bound", "round/effective_clients"} <= set(tags["scalars"])
    assert sorted(tags["histograms"]) == ["clients/auroc", "clients/loss"]
    counted = read.Histograms("clients/loss")[-1].histogram_value
    assert counted.num == 4
    assert counted.max == pytest.approx(result.loss["worst_client"], rel=1e-6)


@pytest.fixture
def mlflow(monkeypatch):
    """A module with MLflow's calls, which remembers them."""
    told = SimpleNamespace(run=None, params={}, metrics=[], ended=0)

    def start_run(run_name=None):
        told.run = run_name or "unnamed"
        return told.run

    def end_run():
        told.ended += 1

    fake = SimpleNamespace(
        start_run=start_run,
        log_params=told.params.update,
        log_metrics=lambda values, step: told.metrics.append((step, values)),
        end_run=end_run,
    )
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    return told


def test_mlflow_gets_the_configuration_and_every_round_once(mlflow):
    result = train(CONFIG, callbacks=[MLflow(CONFIG, run_name="mine")])
    assert (mlflow.run, mlflow.ended) == ("mine", 1)
    assert mlflow.params["dataset"] == "heart"
    assert mlflow.params["method_options.cdf"] == "frechet"
    assert not any(isinstance(value, dict) for value in mlflow.params.values())
    assert [step for step, _ in mlflow.metrics] == [1, 2, 3, 4]
    assert "metric/avg" not in mlflow.metrics[0][1]
    last = mlflow.metrics[-1][1]
    assert last["metric/avg"] == pytest.approx(result.metric["avg"])
    assert all(type(value) is float for value in last.values())


def test_mlflow_in_ones_own_loop_needs_no_configuration(mlflow):
    federation = Federation(binary_data(), callbacks=[MLflow()])
    federation.run(3)
    assert mlflow.params == {}
    assert len(mlflow.metrics) == 3
    assert mlflow.ended == 1


def test_a_run_is_ended_though_training_failed(mlflow):
    class Broken(MLflow):
        def on_round(self, federation, record):
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        Federation(binary_data(), callbacks=[Broken()]).run(3)
    assert mlflow.ended == 1


@pytest.mark.parametrize(
    ("module", "make", "said"),
    [
        ("mlflow", MLflow, "--mlflow needs MLflow .*pip install mlflow"),
        ("torch.utils.tensorboard", lambda: TensorBoard("x"), r"pip install 'aaggff\[trackers\]'"),
    ],
)
def test_without_its_package_a_tracker_says_what_to_install(monkeypatch, module, make, said):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=said):
        make()


def test_figures_leave_out_what_is_no_number():
    record = {
        "objective": 0.5, "entropy": float("nan"), "kl_from_size": None, "lr": 0.1, "step": 1,
        "set_aside": {"3": "loss is nan"}, "metric": {"avg": float("inf"), "gini": 2.0},
        "regret": 1.5, "regret_bound": None,
    }  # fmt: skip
    assert figures(record) == {
        "round/objective": 0.5, "round/lr": 0.1, "round/step": 1.0, "round/set_aside": 1.0,
        "metric/gini": 2.0, "regret/regret": 1.5,
    }  # fmt: skip
