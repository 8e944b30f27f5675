"""What FairStrategy costs on Flower, side by side with Flower's own FedAvg on the same app.

python bench/flower.py            (about three minutes; --quick leaves out the simulation)

50 clients, 10 MB of float32 parameters in ten layers. A round is measured twice: as a whole, in
Flower's simulation, where Ray's processes run a ClientApp that knows nothing of aaggff and the two
strategies take turns on the same nodes; and its last step alone, `aggregate_train`, on the same
replies. Both of its figures are ratios to FedAvg's, measured in turns in one process.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from aaggff.deploy.flower.environment import be_quiet

be_quiet()

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Strategy
from flwr.supercore.task_identity import TaskIdentity

from aaggff.deploy.flower import FairStrategy
from aaggff.deploy.flower.simulation import simulate

CLIENTS, LAYERS, LAYER = 50, 10, (512, 512)
MODEL_BYTES = LAYERS * LAYER[0] * LAYER[1] * 4
MOST = 1.02
MIB = 2**20
METHODS = ("aaggff-s", "aaggff-d", "qfedavg")


def model() -> ArrayRecord:
    rng = np.random.default_rng(0)
    return ArrayRecord(
        {f"layer{i}.weight": Array(rng.standard_normal(LAYER, np.float32)) for i in range(LAYERS)}
    )


def trained(arrays: ArrayRecord, client: int) -> tuple[ArrayRecord, MetricRecord]:
    """What a client sends back: the model, a little changed, and the usual three numbers."""
    rng = np.random.default_rng(client)
    changed = {
        name: Array(array.numpy() + np.float32(0.01) * rng.random(LAYER, np.float32))
        for name, array in arrays.items()
    }
    said = {"train_loss": 1.0 + rng.random(), "num-examples": 100 + client, "partition-id": client}
    return ArrayRecord(changed), MetricRecord(said)


app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    client = int(context.node_config["partition-id"])
    arrays, metrics = trained(message.content["arrays"], client)
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


def fedavg() -> FedAvg:
    return FedAvg(fraction_evaluate=0.0, min_train_nodes=CLIENTS, min_available_nodes=CLIENTS)


def fair(method: str) -> FairStrategy:
    return FairStrategy(
        method, clients=CLIENTS, fraction_evaluate=0.0, min_train_nodes=CLIENTS, client_lr=0.1
    )


class OneRound:
    """A grid that gives the same 50 replies again and again."""

    def __init__(self) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self.arrays, self.replies = model(), []
        for client in range(CLIENTS):
            message = Message(RecordDict(), client + 1, "train")
            message.metadata.__dict__["_message_id"] = str(client)
            arrays, metrics = trained(self.arrays, client)
            content = RecordDict({"arrays": arrays, "metrics": metrics})
            self.replies.append(Message(content, reply_to=message))

    def get_node_ids(self) -> list[int]:
        return list(range(1, CLIENTS + 1))

    def ready(self, strategy: Strategy, number: int) -> Callable[[], object]:
        """The strategy after it has sent its messages."""
        list(strategy.configure_train(number, self.arrays, ConfigRecord(), self))  # type: ignore[arg-type]
        return lambda: strategy.aggregate_train(number, self.replies)


def aggregate_seconds(repeats: int) -> dict[str, list[float]]:
    """Seconds of `aggregate_train`, the strategies taking turns."""
    here = OneRound()
    sides: dict[str, Strategy] = {"FedAvg": fedavg()} | {name: fair(name) for name in METHODS}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(1, repeats + 2):
        for name, strategy in sides.items():
            run = here.ready(strategy, number)
            began = time.perf_counter()
            run()
            if number > 1:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def peak_bytes() -> dict[str, int]:
    """Most memory `aggregate_train` takes beyond what is held before it: the replies."""
    here = OneRound()
    sides: dict[str, Strategy] = {"FedAvg": fedavg()} | {name: fair(name) for name in METHODS}
    peaks = {}
    for name, strategy in sides.items():
        run = here.ready(strategy, 1)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        run()
        peaks[name] = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
    return peaks


def round_seconds(rounds: int) -> dict[str, list[float]]:
    """Seconds of whole rounds in Flower's simulation, the strategies taking turns."""

    def main(grid: Grid) -> dict[str, list[float]]:
        sides: dict[str, Strategy] = {"FedAvg": fedavg(), "aaggff-s": fair("aaggff-s")}
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        arrays = model()
        for number in range(1, rounds + 2):
            order = list(sides) if number % 2 else list(sides)[::-1]
            for name in order:
                began = time.perf_counter()
                sent = sides[name].configure_train(number, arrays, ConfigRecord(), grid)
                replies = grid.send_and_receive(sent, timeout=600)
                new, _ = sides[name].aggregate_train(number, replies)
                took = time.perf_counter() - began
                assert new is not None
                del replies, sent
                if number > 1:  # the first has the processes' imports in it
                    seconds[name].append(took)
        return seconds

    return simulate(main, app, nodes=CLIENTS, workers=2)


def row(what: str, value: str, required: str = "", good: bool = True) -> bool:
    verdict = ("ok" if good else "NOT") if required else ""
    print(f"{what:<64}{value:>14}{required:>12}   {verdict}", flush=True)
    return good


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="no simulation")
    parser.add_argument("--rounds", type=int, default=12)
    quick = parser.parse_args()
    print(f"{CLIENTS} clients, {MODEL_BYTES / MIB:.0f} MiB of parameters\n")
    print(f"{'':<64}{'measured':>14}{'required':>12}")
    good = []

    seconds = aggregate_seconds(7)
    own = statistics.median(seconds.pop("FedAvg"))
    row("aggregate_train, Flower's FedAvg", f"{own * 1e3:.0f} ms")
    for name, each in seconds.items():
        row(f"aggregate_train, FairStrategy({name})", f"{statistics.median(each) * 1e3:.0f} ms")
        ratio = statistics.median(each) / own
        good.append(row("  over FedAvg's", f"{ratio:.3f}", f"<= {MOST}", ratio <= MOST))

    peaks = peak_bytes()
    flower = peaks.pop("FedAvg")
    row("peak memory in aggregate_train, Flower's FedAvg", f"{flower / MIB:.1f} MiB")
    for name, peak in peaks.items():
        row(f"peak memory in aggregate_train, FairStrategy({name})", f"{peak / MIB:.1f} MiB")
        beyond = (peak - flower) / MODEL_BYTES
        good.append(row("  beyond FedAvg's, in models", f"{beyond:.2f}", "<= 1", beyond <= 1))

    if not quick.quick:
        whole = round_seconds(quick.rounds)
        own = statistics.median(whole["FedAvg"])
        row("a simulated round, Flower's FedAvg", f"{own:.2f} s")
        row("a simulated round, FairStrategy(aaggff-s)",
            f"{statistics.median(whole['aaggff-s']):.2f} s")  # fmt: skip
        # Rounds are compared in pairs, one after the other: the machine's mood is the same.
        ratio = statistics.median(f / a for f, a in zip(whole["aaggff-s"], whole["FedAvg"]))
        good.append(row("  over FedAvg's", f"{ratio:.3f}", f"<= {MOST}", ratio <= MOST))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
