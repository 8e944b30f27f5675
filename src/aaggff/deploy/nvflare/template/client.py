"""One site: what NVFlare runs at each hospital. The data stay here; loss and update leave."""

import numpy as np
import nvflare.client as flare
from task import LOCAL, SEED, client_of, load_data, make_model

from aaggff.deploy.nvflare import report
from aaggff.federation.client import mean_loss, train_client
from aaggff.federation.evaluate import evaluate


def main():
    flare.init()
    client = client_of(flare.get_site_name())
    data, model = load_data(), make_model()
    part, task, prepare = data.train(client), data.task, data.prepare
    while flare.is_running():
        received = flare.receive()
        model.load_state_dict(received.params)
        loss = mean_loss(model, part, task, prepare=prepare)
        tested = evaluate(model, data, clients=np.array([client]))
        train_client(
            model, part, task, LOCAL,
            prepare=prepare, seed=SEED, round=received.current_round + 1, client=client,
        )  # fmt: skip
        metrics = report(
            loss,
            samples=len(part[1]),
            test={task.metric: float(tested.values[0]), "test_loss": float(tested.loss[0])},
            test_samples=int(tested.sizes[0]),
        )
        flare.send(flare.FLModel(params=model.state_dict(), metrics=metrics))


if __name__ == "__main__":
    main()
