"""Batches: which decisions of a batch are taken, and which its person must make one by one (A16).

Theory: people read a list, and decide what they have read. What is not the call that they saw, what needs words of its
own, and what is not theirs to decide is left out with a sentence, and stays pending. Everything else is an ordinary
decision.

Rules
- A batch names its approvals by id. So what was asked after its list was read is not in it.
- The digest that the person was shown, if it is given, must be that of the approval.
- A question is never decided in a batch: each has an answer of its own.
- A yes that needs more people is given one by one (A17). A no is not.
- A person who may not decide an approval does not decide it in a batch, and the audit trail says so.
"""

from collections.abc import Mapping
from typing import Final, Literal

from supervisor.core.errors import NotEntitled
from supervisor.core.values import Approval, Decision, DecisionResult
from supervisor.runtime.people.admission import Admission

SEVERAL: Final = "it needs {} people, and a batch gives no vote: decide it by itself"
QUESTION: Final = "it is a question: answer it by itself"
CHANGED: Final = "it is not the call that you were shown: look at it, and decide it by itself"


async def left_out(
    found: Approval, decision: Decision, shown: Mapping[str, str], admission: Admission, channel: str | None
) -> DecisionResult | None:
    """Return the result of a decision that a batch does not make; None for one that it makes."""
    kind: Literal["refused", "conflict"] = "refused"
    why = QUESTION
    if found.kind == "call":
        if shown.get(found.id, found.digest) != found.digest:
            kind, why = "conflict", CHANGED
        else:
            try:
                quorum = await admission.of_decision(found, decision, channel)
            except NotEntitled as error:
                why = str(error)
            else:
                if quorum.number == 1:
                    return None
                why = SEVERAL.format(quorum.number)
    return DecisionResult(kind=kind, approval=found.id, status=found.status, why=why)
