"""The cheapest reader that is good enough for a page, and whether it was."""

from ingestion.triage.judge import Judgement, judge_page
from ingestion.triage.plan import Plan, plan_page

__all__ = ["Judgement", "Plan", "judge_page", "plan_page"]
