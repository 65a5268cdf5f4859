"""Whether a person may give a command, where people have roles: one door for all commands (A4).

Rules
- A program gives commands in its own name: `by=None` is admitted. A person is asked for their role.
- A refusal is journaled for the audit trail, and logged.
- What a channel asks of roles by itself only saves a person a vain effort, and admits no command: each command comes
  through this door afterwards. Two acts of channels depend on it. A form does not open for a person whose decision
  would be refused (`Answering.why_hidden`, which journals that refusal, since no decision follows). Discord opens no
  thread for a person whose start would be refused (discord/commands.py): else the refusal would leave an empty thread.
"""

from typing import NoReturn

from supervisor.core.approvals.people import People
from supervisor.core.encoding import printable_text
from supervisor.core.errors import NotEntitled
from supervisor.core.values import Approval, Decision, check_identity, decider_of
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.people.refusals import Refusals
from supervisor.system.logs import FactLog

log = FactLog(__name__)


class Admission:
    """`people`: people and roles; None: every process that has the store open may do everything."""

    def __init__(self, runner: Runner, people: People | None) -> None:
        self._runner = runner
        self.people = people
        self.refusals = Refusals(runner)

    async def of_command(self, by: str | None, act: str, session: str | None = None) -> str:
        """Return the name of the person who gives a command. Raises NotEntitled if they may not `act`."""
        who = check_identity(by if by is not None else self._runner.environment.user())
        if (why := self.people.why_not_command(who, act) if self.people is not None else None) is not None:
            await self._refuse(who, act, session, why)
        return printable_text(who)

    async def of_program(self, by: str | None, act: str, session: str | None = None) -> str:
        """As `of_command`; but without a person the program itself gives the command, and may."""
        return (
            printable_text(self._runner.environment.user()) if by is None else await self.of_command(by, act, session)
        )

    async def of_message(self, by: str | None, text: str, session: str) -> str:
        """Return the name of the person who sends a message. Raises NotEntitled."""
        who = printable_text(check_identity(by if by is not None else self._runner.environment.user()))
        if (why := self.people.why_not_say(who, text, ()) if self.people is not None else None) is not None:
            await self._refuse(who, "send messages", session, why)
        return who

    async def of_decision(self, approval: Approval, decision: Decision, channel: str | None) -> None:
        """Raise NotEntitled if the person may not make this decision."""
        decider_of(decision)
        why = None if self.people is None else self.people.why_not_decide(decision.by, approval, decision)
        if why is not None:
            await self.refusals.note(approval.id, decision.by, why, channel)
            raise NotEntitled(why)

    def roles_of(self, name: str) -> tuple[str, ...]:
        """Return the roles of a person; none for a person or a program that is not known."""
        person = None if self.people is None else self.people.find(name)
        return () if person is None else person.roles

    def may_decide(self, by: str, approval: Approval) -> bool:
        """Return whether a person may decide an approval once."""
        return self.people is None or self.people.why_not_decide(by, approval) is None

    async def _refuse(self, who: str, act: str, session: str | None, why: str) -> NoReturn:
        log.warning("command.refused", act=act, by=printable_text(who))
        await self.refusals.note_command(act, who, why, session)
        raise NotEntitled(why)
