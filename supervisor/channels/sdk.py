"""What a channel is built with. The channels of this package use this module, and nothing else of the package; only the
web and the terminal, which show more than approvals, do. So a channel of yours can do what they do.
docs/how-to/write-a-channel.md builds one.

    the table [channels.NAME]    ChannelSettings, ChannelSetup, Secret, Problem
    the channel                  Channel of supervisor.channels, with Webhook and WebhookReply; CardGone
    a card                       make_card, all_facts, asked_facts, decided, page_of, remark, still_waits, summary
    what a card says             Fact, of one kind each: draw makes a label and a text of it, shown_whole says which of
                                 the DrawnFact ones are complete
    hostile text                 visible, gathered, json_text
    within a platform's limits   fit, fit_facts, fit_lines, length; pieces and harmless, for Markdown
    buttons and forms            buttons_of, fitting_buttons, unseen_buttons, says_yes, form_of; has_form, modal_fields,
                                 read_modal
    a form, field by field       interview_of, whose Interview says what each Prompt asks, and what a line means
    a press, by its code         Answering, which finds the person, decides, and says what became of it
    a whole chat platform        Platform, which is subclassed, for ChatChannel: it draws, reads, writes, edits, finds,
                                 whispers and opens forms; Limits say what it cannot do, Refused what it refuses
    sessions in chats            Chat, which is subclassed, and Conversations; IncomingMessage, Earlier, Piece
    HTTP requests (needs httpx)  HttpClient, HttpReply, reaching: bounded, and without addresses in logs
"""

from typing import TYPE_CHECKING

from supervisor.channels.chat.acts import Act, Answer, Command, Noise, Place, Press, Replied, Said
from supervisor.channels.chat.answering import Answering, Pressed, Reply, Result
from supervisor.channels.chat.cards import Asking
from supervisor.channels.chat.conversations import Conversations
from supervisor.channels.chat.driver import ChatChannel
from supervisor.channels.chat.filling import FILL, Fill
from supervisor.channels.chat.interview import NOTHING, Interview, Prompt, interview_of
from supervisor.channels.chat.modal_fields import ModalField, modal_fields, read_modal, refused
from supervisor.channels.chat.platform import BURIED, WRITING, Chat, Earlier, IncomingMessage, Piece
from supervisor.channels.chat.presses import (
    DENY,
    EDIT,
    EXPLAIN,
    FORMS,
    REPLY,
    Button,
    Form,
    buttons_of,
    code_of_reply,
    decision_of,
    fitting_buttons,
    form_of,
    says_yes,
    unseen_buttons,
)
from supervisor.channels.chat.prose import harmless, pieces
from supervisor.channels.chat.refusals import Meaning, Refused, what_follows
from supervisor.channels.chat.verbs import (
    CARD,
    Drawn,
    Driver,
    Face,
    Limits,
    Mentioned,
    Platform,
    Questions,
    Seen,
    Serving,
)
from supervisor.channels.settings import ChannelSettings, ChannelSetup, Problem, Secret
from supervisor.channels.wording.cards import (
    Card,
    Choice,
    all_facts,
    asked_facts,
    decided,
    draw,
    fact_lines,
    headline,
    heard_lines,
    make_card,
    page_of,
    path_text,
    remark,
    shown_whole,
    still_waits,
    summary,
    where_of,
    with_choices,
    with_gutter,
)
from supervisor.channels.wording.form_words import has_form
from supervisor.channels.wording.granting import Grant
from supervisor.channels.wording.lengths import DrawnFact, fit, fit_facts, fit_lines, length
from supervisor.core.approvals.chat_words import Word, read_word
from supervisor.core.approvals.facts import Fact
from supervisor.core.approvals.forms import Reading
from supervisor.core.approvals.people import Mention, People as People, Person as Person
from supervisor.core.declarations.agent_spec import AgentSpec as AgentSpec
from supervisor.core.errors import (
    InvalidInput as InvalidInput,
    NotEntitled as NotEntitled,
    NotFound as NotFound,
    StoreError as StoreError,
    SupervisorError as SupervisorError,
    TreeOwned as TreeOwned,
)
from supervisor.core.ids import APPROVAL_ID
from supervisor.core.text.visible import gathered, json_text, visible
from supervisor.core.values import Approval as Approval
from supervisor.lazy import lazily
from supervisor.seam.channel import (
    CardGone as CardGone,
    Channel as Channel,
    Webhook as Webhook,
    WebhookReply as WebhookReply,
)
from supervisor.seam.supervisor import Supervisor as Supervisor
from supervisor.system.logs import FactLog
from supervisor.system.threads import in_thread

if TYPE_CHECKING:
    from supervisor.system.http_requests import HttpClient, HttpReply, reaching

__all__ = [
    "APPROVAL_ID",
    "BURIED",
    "CARD",
    "DENY",
    "EDIT",
    "EXPLAIN",
    "FILL",
    "FORMS",
    "NOTHING",
    "REPLY",
    "WRITING",
    "Act",
    "Answer",
    "Answering",
    "Asking",
    "Button",
    "Card",
    "CardGone",
    "ChannelSettings",
    "ChannelSetup",
    "Chat",
    "ChatChannel",
    "Choice",
    "Command",
    "Conversations",
    "Drawn",
    "DrawnFact",
    "Driver",
    "Earlier",
    "Face",
    "Fact",
    "FactLog",
    "Fill",
    "Form",
    "Grant",
    "HttpClient",
    "HttpReply",
    "IncomingMessage",
    "Interview",
    "Limits",
    "Meaning",
    "Mention",
    "Mentioned",
    "ModalField",
    "Noise",
    "Piece",
    "Place",
    "Platform",
    "Press",
    "Pressed",
    "Problem",
    "Prompt",
    "Questions",
    "Reading",
    "Refused",
    "Replied",
    "Reply",
    "Result",
    "Said",
    "Secret",
    "Seen",
    "Serving",
    "Word",
    "all_facts",
    "asked_facts",
    "buttons_of",
    "code_of_reply",
    "decided",
    "decision_of",
    "draw",
    "fact_lines",
    "fit",
    "fit_facts",
    "fit_lines",
    "fitting_buttons",
    "form_of",
    "gathered",
    "harmless",
    "has_form",
    "headline",
    "heard_lines",
    "in_thread",
    "interview_of",
    "json_text",
    "length",
    "make_card",
    "modal_fields",
    "page_of",
    "path_text",
    "pieces",
    "reaching",
    "read_modal",
    "read_word",
    "refused",
    "remark",
    "says_yes",
    "shown_whole",
    "still_waits",
    "summary",
    "unseen_buttons",
    "visible",
    "what_follows",
    "where_of",
    "with_choices",
    "with_gutter",
]

if not TYPE_CHECKING:  # httpx is not installed with every channel
    _, __getattr__, _ = lazily(__name__, {"supervisor.system.http_requests": "HttpClient HttpReply reaching"})
