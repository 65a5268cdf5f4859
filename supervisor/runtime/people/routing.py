"""Check routes and steps of an escalation against the channels there are, before anything is posted."""

from collections.abc import Iterator, Mapping, Sequence

from supervisor.core.approvals.people import People
from supervisor.core.approvals.reminders import Reminders
from supervisor.core.approvals.routes import APPROVERS, Route, split_target
from supervisor.core.errors import InvalidInput
from supervisor.seam.channel import Channel


def route_problems(
    routes: Sequence[Route], channels: Mapping[str, Channel | None], people: People | None
) -> Iterator[tuple[str, str]]:
    """Yield the problems of routes, as (key, problem). A channel that is None is made later: it has one place, where
    people are asked."""
    for number, route in enumerate(routes):
        for key, targets in (("ask", route.ask), ("notify", route.notify)):
            for target in targets:
                why = _why_not(target, channels, people, is_notice=key == "notify")
                if why is not None:
                    yield f"routes[{number}].{key}", why
        if len({*route.ask, *route.notify}) < len(route.ask) + len(route.notify):
            yield f"routes[{number}]", "each target is written once, under ask or under notify"


def step_problems(
    reminders: Reminders, channels: Mapping[str, Channel | None], people: People | None
) -> Iterator[tuple[str, str]]:
    """Yield the problems of the steps of an escalation, as (key, problem)."""
    for number, step in enumerate(reminders.steps):
        for target in step.by:
            channel = channels.get(split_target(target)[0])
            why = _why_not(target, channels, people, is_notice=channel is not None and channel.only_notifies)
            if why is None and (channel is None or not _can_tell(channel)):
                why = f"{target} shows cards, and tells people nothing else: write a channel that does"
            if why is not None:
                yield f"escalation[{number}].by", why


def check_reminders(reminders: Reminders, channels: Sequence[Channel], people: People | None) -> None:
    """Raise InvalidInput for the first problem of the steps."""
    for key, problem in step_problems(reminders, {channel.name: channel for channel in channels}, people):
        raise InvalidInput(f"{key}: {problem}")


def check_routes(routes: Sequence[Route], channels: Sequence[Channel], people: People | None) -> None:
    """Raise InvalidInput for the first problem of routes."""
    for key, problem in route_problems(routes, {channel.name: channel for channel in channels}, people):
        raise InvalidInput(f"{key}: {problem}")


def _why_not(
    target: str, channels: Mapping[str, Channel | None], people: People | None, *, is_notice: bool
) -> str | None:
    name, place = split_target(target)
    if name not in channels:
        return f"there is no channel {name!r}; the channels are: {', '.join(sorted(channels)) or 'none'}"
    channel = channels[name]
    if is_notice and (channel is None or not _can_notify(channel)):
        return f"{name} cannot notify without asking: write it under ask"
    if not is_notice and channel is not None and channel.only_notifies:
        return f"{name} only notifies, and no person can decide there: write it under notify"
    if target.endswith(":") or (place.startswith("@") and place != APPROVERS):
        return f'{target!r} names no place: write "{name}", "{name}:PLACE" or "{name}:{APPROVERS}"'
    return _why_not_there(name, channel, place, people) if place else None


def _why_not_there(name: str, channel: Channel | None, place: str, people: People | None) -> str | None:
    if channel is None:
        return f"{name} has one place only: write {name!r}"
    places = [place]
    if place == APPROVERS:
        places = [f"@{identity}" for identity in (people.find_identities(name) if people is not None else ())]
        if not places:
            return f"no person has an identity on {name}: write identities = {{ {name} = ... }} of a person"
    try:
        for each in places:
            channel.at(each)
    except InvalidInput as error:
        return str(error)
    return None


def _can_tell(channel: Channel) -> bool:
    own = type(channel)
    return own.remind is not Channel.remind or own.remind_all is not Channel.remind_all


def _can_notify(channel: Channel) -> bool:
    return channel.only_notifies or type(channel).notify is not Channel.notify
