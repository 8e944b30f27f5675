"""Which client a node is: an app's own id, believed once, and nobody else's."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pytest
from flwr.app import Context, Message

from aaggff.deploy.flower import FairStrategy
from tests.deploy.fake_grid import Answer, FakeGrid, record, reply


def says(**metrics: object) -> Answer:
    """A client that reports these metrics; `value` is what its update moves the model to."""

    def answer(message: Message, context: Context) -> Message:
        told = {"num_examples": 3, "received_loss": 0.5} | metrics
        value = np.float32(told.pop("value", 1.0))
        return reply(message, record(w=np.full(2, value)), **told)

    return answer


def silent(message: Message, context: Context) -> None:
    return None


def play(
    grid: FakeGrid, strategy: FairStrategy, rounds: int, between: Callable[[int], None] = int
) -> list[dict]:
    """The records of so many rounds; `between` changes the grid before each."""
    first, records = record(w=np.zeros(2, np.float32)), []
    for number in range(1, rounds + 1):
        between(number)
        strategy.server.round = number - 1
        strategy.start(grid, first, num_rounds=number, timeout=5)  # type: ignore[arg-type]
        assert strategy.record is not None
        records.append(strategy.record)
    return records


def fair(clients: int | None = None, method: str = "aaggff-s", **options: object) -> FairStrategy:
    return FairStrategy(
        method, clients=clients, fraction_evaluate=0.0, start_timeout=0.0, min_train_nodes=1,
        **options,  # type: ignore[arg-type]
    )  # fmt: skip


def test_the_apps_own_id_else_the_node_id_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    grid = FakeGrid({5: says(client_id=70, partition_id=1), 6: says(partition_id=71), 7: says()})
    with caplog.at_level(logging.WARNING):
        assert play(grid, fair(3), 3)[-1]["clients"] == [7, 70, 71]
    assert sum("node id stands for" in line.getMessage() for line in caplog.records) == 1


def test_who_speaks_as_another_client_is_set_aside_and_that_client_is_heard() -> None:
    honest, thief = says(client_id=0, value=1.0), says(client_id=0, value=100.0)
    # The thief's node id is the lower one, and it answers as itself first.
    grid = FakeGrid({1: says(client_id=1), 2: says(client_id=2), 9: honest})
    strategy = fair(3)

    def change(number: int) -> None:
        if number == 2:
            grid.answers[1] = thief
        if number == 3:
            grid.join(4, thief)  # a node nobody has met

    _, second, third = play(grid, strategy, 3, change)
    assert second["clients"] == [0, 2]
    assert second["set_aside"] == {"1": "says it is client 0, and was client 1 before"}
    assert third["clients"] == [0, 2]
    assert third["set_aside"]["4"] == "says it is client 0, which is node 9"
    np.testing.assert_allclose(strategy.current["w"], 1.0)


def test_a_client_that_restarts_under_another_node_id_is_known_again() -> None:
    grid = FakeGrid({11: says(client_id=0), 22: says(client_id=1, received_loss=2.0)})
    strategy = fair(2)

    def change(number: int) -> None:
        if number == 2:  # its old node id is still listed, but nobody answers there
            grid.answers[22] = silent
            grid.join(33, says(client_id=1, received_loss=2.0))
        if number == 3:
            del grid.answers[22]

    for record_ in play(grid, strategy, 3, change):
        assert record_["clients"] == [0, 1]
        assert record_["dropped"] == []
        assert record_["set_aside"] == {}
    maker = strategy.server.maker
    assert maker is not None
    assert len(maker.state_dict()["ids"]) == 2  # one history, not two


def test_a_stand_in_for_an_absent_client_gives_way_when_it_comes_back() -> None:
    grid = FakeGrid({11: says(client_id=0), 22: says(client_id=1)})

    def change(number: int) -> None:
        if number == 2:
            grid.answers[22] = silent
            grid.join(5, says(client_id=1, value=50.0))
        if number == 3:
            grid.answers[22] = says(client_id=1)

    strategy = fair(2)
    last = play(grid, strategy, 3, change)[-1]
    assert last["clients"] == [0, 1]
    assert last["set_aside"] == {"5": "says it is client 1, which is node 22"}


def test_two_nodes_that_are_one_client_from_the_start_are_both_set_aside() -> None:
    grid = FakeGrid({11: says(client_id=0), 22: says(client_id=0), 33: says(client_id=2)})
    found = play(grid, fair(3), 1)[0]
    assert found["clients"] == [2]
    assert set(found["set_aside"]) == {"11", "22"}
    assert found["set_aside"]["11"] == "nodes 11 and 22 all say they are client 0"


def test_two_replies_of_one_client_count_as_none() -> None:
    class Stuttering(FakeGrid):
        def send_and_receive(self, messages, *, timeout=None):  # type: ignore[no-untyped-def]
            replies = super().send_and_receive(messages, timeout=timeout)
            return replies + [each for each in replies if each.metadata.src_node_id == 1]

    grid = Stuttering({1: says(client_id=0), 2: says(client_id=1)})
    found = play(grid, fair(2), 2)[-1]
    assert found["clients"] == [1]
    assert found["set_aside"] == {"0": "answered more than once"}


@pytest.mark.parametrize("claim", [float("nan"), float("inf"), 2.5, 1e300, 10**30, [1, 2]], ids=str)
def test_an_id_that_is_none_is_refused(claim: object) -> None:
    grid = FakeGrid({1: says(client_id=claim), 2: says(client_id=7), 3: says(client_id=8)})
    found = play(grid, fair(3), 1)[0]
    assert found["clients"] == [7, 8]
    assert "expected an int" in found["set_aside"]["1"]


@pytest.mark.parametrize("method", ["aaggff-s", "aaggff-d", "fedavg"])
def test_more_clients_than_were_said_to_exist_are_not_let_in(method: str) -> None:
    grid = FakeGrid({node: says(client_id=node) for node in (4, 5, 6)})

    def change(number: int) -> None:
        if number == 2:
            grid.join(1, says(client_id=1))

    first, second = play(grid, fair(3, method), 2, change)
    assert first["clients"] == second["clients"] == [4, 5, 6]
    assert second["set_aside"] == {"1": "is not one of the 3 clients met before it"}


@pytest.mark.parametrize("method", ["aaggff-s", "aaggff-d", "fedavg", "term", "afl", "fedmgda"])
def test_where_nobody_said_how_many_there_are_they_may_join(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aaggff.deploy.flower.nodes.PAUSE", 0.0)
    grid = FakeGrid({node: says(client_id=node, received_loss=node / 9) for node in (4, 5, 6)})

    def change(number: int) -> None:
        if number == 3:
            grid.join(1, says(client_id=1, received_loss=0.9))

    records = play(grid, fair(None, method), 5, change)
    assert [len(each["clients"]) for each in records] == [3, 3, 4, 4, 4]
    assert all(sum(each["weights"]) == pytest.approx(1.0) for each in records)


def test_where_nobody_said_how_many_there_are_the_start_waits_until_no_more_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aaggff.deploy.flower.nodes.PAUSE", 0.0)
    grid, looks = FakeGrid({node: says(client_id=node) for node in range(1, 9)}), []

    def registering() -> list[int]:
        looks.append(1)
        return list(grid.answers)[: len(looks)]

    monkeypatch.setattr(grid, "get_node_ids", registering)
    strategy = fair(None)
    assert len(play(grid, strategy, 1)[0]["clients"]) == 8
    assert strategy.server.clients == 8
