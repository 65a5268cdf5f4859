"""How a process of one machine comes to run trees: start and resume, and commands about a tree that no process runs.

Rules
- Opening runs and owns nothing. `start` and `resume` claim trees. So do `decide` and `send`, if no process runs the
  tree and this program has declared its agent (R2).
- What a supervised call started runs no tree of others, and gives no command in a person's name (A4).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from supervisor.core import events as e
from supervisor.core.approvals.people import People
from supervisor.core.calls.folders import folder_of_call
from supervisor.core.calls.rules import inherit
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.encoding import printable_text
from supervisor.core.errors import InvalidInput, NotEntitled, SessionConflict, StoreDied, StoreError, UnknownAgent
from supervisor.core.ids import check_session_id
from supervisor.core.schedules import is_of_trigger
from supervisor.core.sessions.state import SessionState
from supervisor.runtime.clock.patience import patient, until_answered
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.people.admission import Admission
from supervisor.runtime.plans.allowances import check_countable
from supervisor.runtime.plans.begin import check_same_start, first_events
from supervisor.runtime.reading.reads import LocalReads
from supervisor.seam import commands as c
from supervisor.seam.runs import Run
from supervisor.system.identity import attempt_started, is_here
from supervisor.system.inside import Inside, find_ancestors
from supervisor.system.loading import (
    COMMANDS,
    find_declared,
    holds_command,
    is_configured,
    load_recorded,
    locate,
    locate_everywhere,
    refuse_nameless,
)
from supervisor.system.logs import FactLog

log = FactLog(__name__)

A = TypeVar("A")
Also = Callable[[View], tuple[list[Entry], bool]]
"""What is journaled in the append with which a session begins, and whether it begins."""


class LocalStarting(LocalReads):
    """`people`: people and roles; `agents`: those that are found by name."""

    def __init__(
        self, runner: Runner, people: People | None = None, agents: Mapping[str, AgentSpec[..., Any]] | None = None
    ) -> None:
        super().__init__(runner, agents or {})
        self.admission = Admission(runner, people)
        self.leaves_runs = False
        """Whether `start` only writes the first entries, and leaves the run to a daemon of the store (R2)."""
        self._inside = Inside(self.store, in_doubt=True)
        self.decided: Counter[str] = Counter()
        self.cards_failed: Counter[str] = Counter()

    @property
    def people(self) -> People | None:
        return self.admission.people

    @people.setter
    def people(self, people: People | None) -> None:
        self.admission.people = people

    async def _do(self, command: c.Command[A], by: str | None) -> A:
        do = super()._do
        return await (patient(do) if c.repeats(command) else do)(command, by)

    async def _admit(self, command: c.Command[Any], law: c.Law, by: str | None) -> str:
        if law.inside == "refused":
            self.refuse_inside(law.doing)
        elif law.inside == "own tree" and (session := c.session_of(command)) is not None:
            self._refuse_other_tree(self.reader.get_row(session).root, law.doing)
        return await self.admission.of_command(command, law, by)

    async def _start(self, command: c.Start, who: str) -> Run[Any]:
        started = await self.begin(command, who)
        assert started is not None, "nothing held it back"
        return started

    async def begin(self, command: c.Start, who: str, also: Also | None = None) -> Run[Any] | None:
        """Carry out a start that is admitted. `also` returns what is journaled in the same append, and whether the
        session begins at all; it is asked in the plan. Return None if it does not."""
        named = command.session
        if is_of_trigger(command.requester):  # before its input is looked at: the agent may take another one by now
            self._runner.journal.catch_up()
            self._refuse_delivered(self._runner.journal.look(), command)
        spec, given = self._with_input(command)
        root = check_session_id(named) if named is not None else self._runner.environment.new_session_id()
        created = self.reader.find_created(root) if named is not None else None
        if created is not None and not self.store.owns(root) and created.agent not in COMMANDS:
            self._refuse_other_tree(root, c.LAWS[c.Resume].doing)  # it would run what others have started
        references = self._references(created, spec)
        folder, misfit = self._choose_folder(spec, command.cwd)
        # The plan sets it, and does not answer with it: a cancellation with the commit takes the answer away.
        is_new = False
        traceparent = None if created is not None else self._runner.environment.begin_trace(spec.name)
        begun = spec if created is not None else self._runner.environment.agent_to_begin(spec, root, 1)
        where = locate(spec)

        def plan(view: View) -> tuple[list[Entry], tuple[str | None] | None]:
            nonlocal is_new
            is_new = False
            more, begins = ([], True) if also is None else also(view)
            if not begins:
                return more, None
            known = view.find_session(root)
            if known is not None:
                place = None if command.cwd is None else folder
                check_same_start(known, references, spec.name, given, place, is_configured, command.budget)
                self._claim_known(view, known)
                return more, (known.version,)
            self._refuse_delivered(view, command)
            if misfit is not None:
                raise misfit
            command.check_exact()
            self._refuse_nameless(spec)
            check_countable(begun.rules)
            is_new = True
            self._claim_new(view, root)
            on_behalf_of = printable_text(command.requester) if command.requester else who
            now = self._runner.clock.now()
            # A resumed run keeps this program's deny and ask rules (R4); its allow rules hold in this program only.
            rules = (*inherit((), self._runner.rules.from_code), *begun.rules)
            first = first_events(
                spec,
                where,
                given,
                attempt_started(begun.version, now),
                path=(spec.name,),
                root=root,
                requester=on_behalf_of,
                requester_roles=self.admission.roles_of(on_behalf_of),
                cwd=folder,
                rules=rules,
                budget=command.budget,
                traceparent=traceparent,
            )
            written = first[:-1] if self.leaves_runs else first  # the attempt is of the process that runs it
            return [*more, *((root, event) for event in written)], (begun.version,)

        try:
            found = await self._runner.journal.append_with_answer(plan)
        finally:  # a native cancellation may come with the commit
            if is_new:
                self._begin_new(root, begun)
        if found is None:
            return None
        (version,) = found
        if not is_new and not self.leaves_runs:
            self._runner.claims.run([root])
        ran = spec.at_version(version) if version in (spec.version, *spec.versions) else spec
        # Run 1, since later turns are runs of their own. The result of an agent started by name is plain JSON.
        return self._run_of(root, 1, None if command.spec is None else ran, is_new=is_new)

    def _refuse_delivered(self, view: View, command: c.Start) -> None:
        if is_of_trigger(command.requester):
            from supervisor.runtime.plans.deliveries import refuse_delivered  # few programs need them

            refuse_delivered(view, command)

    def _claim_known(self, view: View, known: SessionState) -> None:
        """Claim the tree of a session that is started again. Raises SessionConflict for one that a daemon may not run
        by itself either, since it is silent (R5)."""
        is_owned = view.store.get_owner(known.id) is not None
        if not self.leaves_runs:
            if known.is_open or not is_owned:  # an idle one, too: a message may begin a turn
                view.claim(known.id)
        elif known.is_open and known.attempts and not is_owned:
            raise SessionConflict(f"session {known.id} has begun, and no process runs it: supervisor resume {known.id}")

    def _claim_new(self, view: View, root: str) -> None:
        """Claim the tree of a session that a plan creates, and announce it: here, where it is known to be new. Readers
        and launches see it at the commit."""
        if not self.leaves_runs:
            view.claim(root)
            self._runner.expect(root)

    def _begin_new(self, root: str, spec: AgentSpec[Any, Any]) -> None:
        """Begin the first attempt of a session; take `expect` back if the append failed."""
        if self.leaves_runs:
            return
        if root in self._runner.journal.states:
            self._runner.begin(root, spec)
        else:
            self._runner.forget(root)

    def _choose_folder(self, agent: AgentSpec[..., Any], cwd: str | None) -> tuple[str, InvalidInput | None]:
        """Return the folder of a new session, and why it cannot be one: a session that has begun goes on even if its
        folder is gone."""
        environment = self._runner.environment
        here = environment.working_directory()
        if cwd is None:
            return environment.folder_of_agent(agent.cwd, here), None
        try:
            return environment.folder_of_agent(agent.cwd, environment.find_folder(cwd, here)), None
        except InvalidInput as misfit:
            return folder_of_call(here, cwd), misfit

    def _with_input(self, command: c.Start) -> tuple[AgentSpec[..., Any], msgspec.Raw]:
        """Return an agent, looked up by its name if need be, and its input."""
        name, given = command.agent, command.input
        if command.spec is not None:
            return command.spec, command.spec.default_input() if given is None else given
        if holds_command(name):
            raise InvalidInput(
                f"{name!r} holds a command, and start takes the name of an agent: run it from the command line, "
                "configure it as an agent, or load it in code with load_agent"
            )
        if (found := self.agents.get(name)) is None:
            offered = ", ".join(sorted(self.agents)) or "none"
            raise UnknownAgent(f"no agent {name!r} is offered here; the agents are: {offered}")
        return found, found.encode_input(found.check_input(found.default_input() if given is None else given), {})

    def _refuse_nameless(self, spec: AgentSpec[Any, Any]) -> None:
        """Raise InvalidInput for an agent that no later process would find, if there can be one."""
        if self.store.is_durable:
            refuse_nameless(spec)

    def _references(self, created: e.SessionCreated | None, agent: AgentSpec[Any, Any]) -> set[str]:
        """Return the references that name an agent: its own, and the one that the session recorded, if that still leads
        to the same agent after a move."""
        references = {(locate_everywhere(agent) if self.store.is_durable else None) or locate(agent)[0]}
        if created is not None and created.agent not in references:
            with suppress(UnknownAgent):
                if load_recorded(created.agent, created.file, created.path[-1]) is agent:
                    references.add(created.agent)
        return references

    async def _resume(self, command: c.Resume, who: str) -> Run[Any]:
        (root,) = await self._runner.claims.take([self.reader.get_row(command.session).root], only_one=True)
        return self._run(root)

    async def _resume_all(self, command: c.ResumeAll, who: str) -> list[Run[Any]]:
        claims = self._runner.claims
        roots = [root for root, rows in (await claims.find_open()).items() if rows[0].id == root]
        unowned = set(await claims.without_owner(roots))
        await claims.take(claims.find_with_jobs())
        taken = await claims.take(root for root in roots if root in unowned or self.store.owns(root))
        return [self._run(root) for root in taken]

    def refuse_inside(self, what: str) -> None:
        """Raise NotEntitled if a supervised call started this process: its commands are no person's (A4)."""
        if self._runner.environment.takes_commands_here:
            self._inside.refuse(what)

    def _refuse_other_tree(self, root: str, what: str) -> None:
        """As `refuse_inside`, but for a tree that this process runs, or whose call started it."""
        if not self.store.owns(root):
            try:
                self.refuse_inside(what)
            except NotEntitled:
                if not self._runs_a_call_above(root):
                    raise

    def _runs_a_call_above(self, root: str) -> bool:
        """Return whether the process of a call or a job of a tree started this one, as far as it sees its ancestors."""
        view, above = self._runner.journal.look(), find_ancestors()
        states = (view.session(row.id) for row in self.store.find_sessions(root=root))
        return any(is_here(host) and process in above for state in states for host, process in _processes(state))

    async def _run_declared(self, root: str) -> bool:
        """Run a tree that no process owns, if this program has declared its agent (R2). Return whether a process runs
        it now. The command is on disk already, so if the tree cannot be claimed, the command still has its result."""
        if await until_answered(self._is_owned, root):
            return True
        created = await until_answered(self.reader.find_created, root)
        if self._runner.is_closed or created is None or find_declared(created.agent, created.path[-1]) is None:
            return False
        try:
            await self._runner.claims.take([root])
        except StoreDied:
            raise
        except StoreError as error:
            log.error("tree.not_claimed", root=root, reason=str(error))
            return False
        return await until_answered(self._is_owned, root)  # another process may have been faster

    def _is_owned(self, root: str) -> bool:
        return self.store.owns(root) or self.store.get_owner(root) is not None


def _processes(state: SessionState) -> Iterator[tuple[str, int]]:
    """Yield the processes of the calls that are executing, and of the jobs that run, each with its host."""
    for record in state.operations.values():
        if record.state == "executing" and record.started is not None and record.started.process is not None:
            yield record.started.host, record.started.process
    for job in state.jobs.values():
        if job.ended is None:
            yield job.started.host, job.started.process
