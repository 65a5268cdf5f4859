"""Whether a person may give a command, where people have roles: one door for all commands (A4).

Rules
- A program gives commands in its own name: `by=None` is admitted. A person is asked for their role.
- A refusal is journaled for the audit trail, and logged.
- What a channel asks of roles by itself only saves a person a vain effort, and admits no command: each command comes
  through this door afterwards. Two acts of channels depend on it. A form does not open for a person whose decision
  would be refused (`Answering.why_hidden`, which journals that refusal, since no decision follows). Discord opens no
  thread for a person whose start would be refused (discord/commands.py): else the refusal would leave an empty thread.
"""

from typing import Any

from supervisor.core.approvals.people import People
from supervisor.core.encoding import printable_text
from supervisor.core.errors import NotEntitled
from supervisor.core.values import Approval, Approve, Decision, check_identity
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.people.refusals import Refusals
from supervisor.runtime.plans.decisions import ALONE, Quorum
from supervisor.seam.commands import Command, Law, Reveal, Send, session_of
from supervisor.system.logs import FactLog

log = FactLog(__name__)


class Admission:
    """`people`: people and roles; None: every process that has the store open may do everything."""

    def __init__(self, runner: Runner, people: People | None) -> None:
        self._runner = runner
        self.people = people
        self.refusals = Refusals(runner)

    async def of_command(self, command: Command[Any], law: Law, by: str | None) -> str:
        """Return the name of the person who gives a command, or for whom a program does. Raises NotEntitled for one
        whom the law does not admit."""
        who = self._runner.environment.user() if by is None else check_identity(by)
        if self.people is not None and law.role == "operator" and not (by is None and law.program_may):
            if isinstance(command, Send):
                why = self.people.why_not_say(who, command.text, ())
            else:
                why = self.people.why_not_command(who, law.audit)
            if why is not None:
                log.warning("command.refused", act=law.audit, by=printable_text(who))
                await self.refusals.note_command(law.audit, who, why, self._session_of(command))
                raise NotEntitled(why)
        return printable_text(who)

    def _session_of(self, command: Command[Any]) -> str | None:
        """Return the session that a command is about, if any."""
        if isinstance(command, Reveal):
            found = self._runner.journal.store.get_approval(command.approval)
            return None if found is None else found.session
        return session_of(command)

    async def of_decision(self, approval: Approval, decision: Decision, channel: str | None) -> Quorum:
        """Return how many people must make a decision. A vote counts as long as its person may make it (A17). Raises
        NotEntitled if this person may not make it."""
        if (people := self.people) is None:
            return ALONE
        if (why := people.why_not_decide(decision.by, approval, decision)) is not None:
            await self.refusals.note(approval.id, decision.by, why, channel)
            raise NotEntitled(why)
        number = people.find_quorum(approval, decision)
        return (
            ALONE if number == 1 else Quorum(number, lambda by: people.why_not_decide(by, approval, decision) is None)
        )

    def roles_of(self, name: str) -> tuple[str, ...]:
        """Return the roles of a person; none for a person or a program that is not known."""
        person = None if self.people is None else self.people.find(name)
        return () if person is None else person.roles

    def may_decide(self, by: str, approval: Approval) -> bool:
        """Return whether a person alone may decide an approval once."""
        if self.people is None:
            return True
        is_alone = self.people.find_quorum(approval, Approve(by=by)) == 1
        return is_alone and self.people.why_not_decide(by, approval) is None
