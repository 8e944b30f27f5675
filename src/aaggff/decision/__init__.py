"""Losses in, mixing weights out. numpy and scipy only."""

from aaggff.decision.base import Decision, DecisionMaker
from aaggff.decision.methods import METHODS, decision_maker, methods

__all__ = ["METHODS", "Decision", "DecisionMaker", "decision_maker", "methods"]
