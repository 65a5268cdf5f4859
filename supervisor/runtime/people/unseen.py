"""Edits of a call with a preview: a person sees evidence of what they typed before the decision counts (A18).

    submit -> EvidenceWanted -> the call takes it -> EvidenceTaken -> `unseen`, with its code -> submit with `seen`

Rules
- The decision counts if it names the code of the evidence that is on disk for exactly these arguments. Evidence that
  was taken anew has another code, so what is confirmed is what was seen. The code is none that a repetition of the
  first request could have.
- What is wanted is journaled, so after a crash the next attempt takes it, and the next submit finds it.
- Arguments that are those of the call need none: their evidence is on the card.
- Evidence that says why a preview failed is evidence: it is seen, and blocks nothing.
- Pure.
"""

from datetime import datetime
from typing import Final

import msgspec

from supervisor.core import events as e
from supervisor.core.approvals.masking import masked_event
from supervisor.core.calls.content import digest_of_edit
from supervisor.core.ids import canonical_json
from supervisor.core.sessions.state import SessionState
from supervisor.core.values import Approve, Decision, DecisionResult, Evidence, code_of_evidence
from supervisor.runtime.plans.decisions import Checked, restored

NOT_YET: Final = "its preview of these arguments is not there yet; submit them again"
NOT_RUNNING: Final = (
    "its preview of these arguments is taken where the session runs, and no process runs it now; start one, and submit "
    "them again"
)


def unseen(
    state: SessionState, operation: str, decision: Decision, checked: Checked, about: dict[str, str], now: datetime
) -> tuple[list[e.AnyEvent], DecisionResult] | None:
    """Return what a decision is answered with whose evidence its person has not seen, and what is to be journaled; None
    if it may count. `about`: the approval, the person, and the channel if there is one."""
    record = state.record_of(operation)
    request = None if record is None else record.request
    if checked.edited is None or record is None or record.approval is None or not isinstance(decision, Approve):
        return None
    if record.pending_approval != about["approval"] or not isinstance(request, e.ToolCallRequested):
        return None
    if request.preview is None:
        return None
    edited = restored(checked.edited, request)
    arguments = msgspec.json.decode(edited)
    if canonical_json(arguments) == canonical_json(msgspec.json.decode(request.arguments)):
        return None
    digest = digest_of_edit(arguments, request.secret, request.digest)
    taken = next((each for each in record.approval.evidence if each.digest == digest), None)
    if taken is not None and decision.seen == code_of_evidence(digest, taken.at):
        return None
    result = DecisionResult(kind="unseen", approval=about["approval"], status="pending")
    if taken is None:
        wanted = e.EvidenceWanted(
            at=now, operation=operation, digest=digest, value=edited, secret=request.secret, **about
        )
        is_wanted = record.approval.wanted is not None and record.approval.wanted.digest == digest
        return [] if is_wanted else [wanted], result
    shown = masked_event(taken)
    assert isinstance(shown, e.EvidenceTaken)
    evidence = Evidence(digest=digest, taken_at=taken.at, kind=taken.kind, text=shown.text, failure=shown.failure)
    return [], msgspec.structs.replace(result, evidence=evidence, seen=code_of_evidence(digest, taken.at))
