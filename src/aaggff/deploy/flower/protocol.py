"""The words strategy and clients share. Numbers only: Flower's metrics hold nothing else."""

from __future__ import annotations

CLIENT_ID = "client-id"
PARTITION_ID = "partition-id"
RECEIVED_LOSS = "received-loss"
"""Mean training loss of the model as it was received: what a decision is made from."""
LOSS_KEYS = (RECEIVED_LOSS, "train_loss", "train-loss", "loss")
"""Where a loss is looked for, unless the strategy is told: ours first, then Flower's habit."""

PHASE = "aaggff-phase"
"""In a train message's config: what is asked for ("who", "loss", "update"); absent: train."""
WEIGHT = "aaggff-weight"
"""In a train message's config, phase "update": the share of its own update a client sends; and in
its reply's metrics, so that the server knows that it did."""
PEERS = "aaggff-peers"
"""In a train message's config, phase "update": the ids of all who get one, among whom masks must
cancel. As text, since a node id that stands for a client is longer than Flower's integers."""
