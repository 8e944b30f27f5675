"""The job: `python job.py` runs it in NVFlare's simulator, `python job.py --export --export-dir
jobs` writes it for a real federation (submit it in NVFlare's console)."""

import argparse
from pathlib import Path

from nvflare.recipe import SimEnv
from task import METHOD, METHOD_OPTIONS, ROUNDS, SITES, load_data

from aaggff.deploy.nvflare import fair_recipe


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", default=METHOD, help="a name of `aaggff methods`")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--record", default="", help="folder for the record and decision state")
    parser.add_argument("--workspace", default="workspace", help="the simulator's folder")
    chosen = parser.parse_args()
    data = load_data()
    recipe = fair_recipe(
        "client.py",
        model={"class_path": "task.make_model", "args": {}},
        sites=SITES,
        rounds=chosen.rounds,
        decision_maker=chosen.method,
        method_options=METHOD_OPTIONS if chosen.method == METHOD else None,
        directory=str(Path(chosen.record).resolve()) if chosen.record else "",
        dataset=data.name,
        metric=data.task.metric,
    )
    recipe.add_server_file("task.py")
    recipe.add_client_file("task.py")
    recipe.execute(SimEnv(num_clients=SITES, workspace_root=chosen.workspace))
    where = chosen.record or f"{chosen.workspace}/fair/server/simulate_job/aaggff"
    print(f"record: {where}; see it with `aaggff report {where}`")


if __name__ == "__main__":
    main()
