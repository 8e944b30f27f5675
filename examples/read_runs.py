"""Reading runs back: who is served how well, by which method, in a few lines of polars.

Run it as a script, or cell by cell in an editor that knows `# %%`. With a directory as its
argument it reads that one, else it first makes a small comparison on Heart to read.
"""

# %% Some runs: those of `aaggff run` or `aaggff compare`, or a small comparison made here
import sys
import tempfile
from pathlib import Path

import polars as pl

import aaggff
from aaggff.experiments.compare import compare

if len(sys.argv) > 1 and Path(sys.argv[1]).is_dir():
    directory = Path(sys.argv[1])
else:
    directory = Path(tempfile.mkdtemp()) / "heart"
    methods = ["fedavg", "uniform", "aaggff-d"]
    compare("heart", methods, seeds=[2, 4, 6], settings={"rounds": 30}, out=directory, workers=1)

loaded = aaggff.load_runs(directory)
pl.Config.set_tbl_hide_dataframe_shape(True)
pl.Config.set_float_precision(3)

# %% One row per run: the last evaluation, averaged over seeds
print(
    loaded.runs.group_by("label", maintain_order=True).agg(
        pl.len().alias("seeds"),
        pl.col("metric_avg").mean(),
        pl.col("metric_worst_client").mean(),
        pl.col("loss_worst_client").mean(),
    )
)

# %% Who gains and who loses against FedAvg, client by client, on the same seeds
last = loaded.clients.filter(pl.col("round") == pl.col("round").max().over("label", "seed"))
base = last.filter(pl.col("label") == "fedavg").select("seed", "client", before="loss")
print(
    last.filter(pl.col("label") != "fedavg")
    .join(base, on=["seed", "client"])
    .with_columns(change=pl.col("loss") - pl.col("before"))
    .group_by("label", "name", maintain_order=True)
    .agg(pl.col("change").mean().alias("test loss less FedAvg's"))
    .pivot(on="label", index="name")
)

# %% How the weights moved: the effective number of clients over the rounds
print(
    loaded.rounds.filter(pl.col("round") % 10 == 0)
    .group_by("round", "label", maintain_order=True)
    .agg(pl.col("effective_clients").mean())
    .pivot(on="label", index="round")
)

# %% Who was heard most: every client's mean weight
print(
    loaded.weights.group_by("label", "client", maintain_order=True)
    .agg(pl.col("weight").mean())
    .pivot(on="label", index="client")
    .sort("client")
)
