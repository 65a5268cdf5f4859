"""Whether the app can work in Slack: its tokens, its scopes, and its place in the conversation.

Slack names an app's scopes in a header of its answers. One that lacks it (a peer of tests, a proxy) is not asked
further.
"""

from typing import Final

from supervisor.channels.slack.web import SlackRefused, SlackWeb
from supervisor.core.errors import SupervisorError
from supervisor.core.text.visible import visible

CARDS: Final = frozenset({"chat:write"})
TALK: Final = frozenset({"app_mentions:read"})
MANIFEST: Final = "; give the app the scopes of docs/how-to/slack-manifest.yaml, and install it again"


async def check_app(web: SlackWeb, conversation: str, team: str | None, *, talks: bool) -> str:
    """Return who the app is, and where it asks. `team`: the configured workspace; `talks`: whether people talk to an
    agent in Slack.

    Raises SupervisorError, which says what to change; OSError if Slack cannot be reached.
    """
    who, scopes = await web.ask_scopes()
    name = visible(f"@{who.get('user', 'the app')}")
    if team is not None and who.get("team_id", team) != team:
        raise SupervisorError(f"the token is of workspace {who['team_id']}; `team` names {team}")
    missing = sorted((CARDS | TALK if talks else CARDS) - scopes) if scopes else []
    if missing:
        raise SupervisorError(f"{name} lacks the scopes {', '.join(missing)}{MANIFEST}")
    place = await _check_place(web, conversation, name)
    if scopes and not _may_read(scopes, place):
        raise SupervisorError(f"{name} may not read {place}, so a card could be posted twice after a crash{MANIFEST}")
    return f"{name} in {place}"


async def _check_place(web: SlackWeb, conversation: str, name: str) -> str:
    try:
        found = (await web.read("conversations.info", channel=conversation))["channel"]
    except SlackRefused as error:
        if error.reason != "missing_scope":
            raise
        return f"{conversation} (with channels:read and groups:read it would be known whether {name} is a member)"
    if found.get("is_im"):
        return "a direct message"
    place = f"#{found.get('name', conversation)}"
    if found.get("is_archived"):
        raise SupervisorError(f"{place} is archived; unarchive it, or configure another conversation")
    if found.get("is_member") is False:
        raise SupervisorError(f"{name} is not in {place}; write /invite {name} there")
    return visible(f"private {place}" if found.get("is_private") else place)


def _may_read(scopes: frozenset[str], place: str) -> bool:
    """Return whether the app may search a place for cards."""
    if place.startswith("#"):
        return "channels:history" in scopes
    if place.startswith("private"):
        return "groups:history" in scopes
    return "im:history" in scopes if place == "a direct message" else True
