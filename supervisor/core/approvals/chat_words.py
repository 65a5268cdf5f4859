"""Chat words: which messages are decisions, and about what (A12). Pure.

    yes, approve, no, reject                the one approval that waits, if there is exactly one
    yes ID, approve ID, no ID, reject ID    that approval
    approve all                             all approvals that wait here and that its sender was shown before
    approve all for session                 and later calls of these tools, in this session

Rules
- A word decides only as the whole message, in upper or lower case. Everything else is chat: "do NOT run that", "yes
  please", "no, wait", and a word that a person quotes.
- A near word is chat that says nothing but yes or no, in any words: "ok", "Yes!", "go ahead", "nein, danke", a thumb.
  It never decides. While an approval waits it is no order to the agent either, so its writer is told what waits.
- A text that says what not to do ("do NOT run that") is a message: an agent that follows it does no harm.
- Near words are found generously: a wrong guess costs its writer one more message, and a miss lets an agent take "ok" as
  an order. Letters are compared without case and accents, and repeated ones as one ("yesss", "aprove").
- This module does not know who says it, or what waits: runtime/chat.py finds that out.
"""

import re
import unicodedata
from typing import Final, Literal

import msgspec

from supervisor.core.calls.rules import Rule
from supervisor.core.ids import APPROVAL_ID
from supervisor.core.values import Approval, DecisionResult, SendResult

_ONE: Final = re.compile(rf"(yes|approve|no|reject)(?: +({APPROVAL_ID}))?", re.IGNORECASE | re.ASCII)
_ALL: Final = re.compile(r"approve +all( +for +session)?", re.IGNORECASE | re.ASCII)
_LONGEST: Final = 200  # characters of a near word, also of one with an id
_EMOJI: Final = re.compile(r":[\w+-]+:|[+-]1\b")
"""An emoji that is written out, as Slack writes them."""
_ID: Final = re.compile(rf"\b{APPROVAL_ID}\b(?<=[a-z0-9]{{16}})")
_TWICE: Final = re.compile(r"(\w)\1+")


def _plain(text: str) -> str:
    """Return a text without case and accents, and with repeated letters once."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return _TWICE.sub(r"\1", "".join(each for each in letters if unicodedata.category(each)[0] != "M"))


_SAY_YES_OR_NO: Final = frozenset(
    _plain("""
    yes y ya yah yea yeah yep yup yas aye ok okay okey okey-dokey oke k kk sure approve approved approves approving accept
    accepted allow allowed permit permitted permission grant granted confirm confirmed agree agreed authorize authorise
    authorized proceed continue go ahead lgtm fine alright right correct affirmative absolutely definitely certainly
    course perfect great good cool nice roger positive sgtm yolo do ship execute works green
    no n nope nah nay deny denied denies reject rejected refuse refused decline declined disapprove
    disallow forbid forbidden block negative stop wait hold cancel abort
    ja jawohl jo jep nein nee nö ne klar gerne genau genehmigt genehmigen einverstanden zustimmen passt mach los ablehnen
    abgelehnt lehne nicht oui ouais non accord approuver approuve approuvé refuser refusé refuse daccord vas allez
    sí si vale claro dale aprobar aprobado apruebo adelante rechazar rechazado rechazo sim não nao aprovar aprovado
    aprovo claro recusar va bene approvo approvato approva certo rifiuto rifiuta akkoord goedgekeurd prima afwijzen
    tak nie zgoda zatwierdź ano jo schvaluji schválit dobre áno nie da net ок да нет ага хорошо давай одобряю разрешаю
    отклонить отклоняю согласен так ні добре гаразд da bine nu evet hayır tamam olur onayla onaylıyorum reddet
    nej nei godkänn godkänd godkend godkjenn avvisa kyllä joo ei hyväksy hylkää igen nem rendben jóváhagyom ναι όχι οκ
    εντάξει כן לא אישור מאשר نعم لا موافق أوافق حسنا हाँ हां नहीं ठीक có không vâng đồng ý được iya ya tidak setuju oke ใช่ ไม่ ตกลง
    好 好的 是 是的 可以 行 同意 批准 对 没问题 确认 不 不行 否 不要 不可以 拒绝 不同意 同意します 好啊 可 允許 拒絕
    はい いいえ いや うん 了解 了解です 承認 承認します 却下 却下します ok です いいよ 許可 拒否 お願いします
    네 예 응 아니 아니요 아니오 승인 승인합니다 거절 좋아요 좋아 확인
    """).split()
)
"""Words that say yes or no, in the languages in which people write to us; compared as `_plain` leaves them."""
_FILL: Final = frozenset(
    _plain("""
    please pls plz thanks thank thx you u i we im me my am is are be it its this that these those them all both everything
    one first last the a an to for on with by now then just so very can could may might will would should must lets let
    us s t m d of run here looks sounds look sound way too up out make course session always once nothing problem
    bitte danke das es ist sein in ordnung merci svp stp plaît il vous te plait por favor gracias obrigado per favore grazie
    y de lo la le les vous moi pour je ich du wir dann mal ok
    """).split()
)
"""Words that stand next to those, and say nothing by themselves."""


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """The decision in a message. `said` is the word; `approval` names one approval, `all` means all that wait."""

    said: Literal["yes", "approve", "no", "reject"]
    approval: str | None = None
    all: bool = False
    for_session: bool = False

    @property
    def is_yes(self) -> bool:
        return self.said in ("yes", "approve")


class ChatResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of what a person said to an agent (A12)."""

    kind: Literal["sent", "decided", "listed"]
    """sent: it was chat; decided: it was a word; listed: it was a word, and does not say which approval it means."""
    sent: SendResult | None = None
    """The result of the message, if it was chat."""
    approvals: tuple[Approval, ...] = ()
    """The approvals that were decided, as they were before; or those that wait, to be named by id."""
    results: tuple[DecisionResult, ...] = ()
    """The result of each decision, in the order of `approvals`; its kind is unknown for an id that is not here."""
    rules: tuple[Rule, ...] = ()
    """The rules that allow tools from now on in the session's tree."""
    not_shown: tuple[Approval, ...] = ()
    """Other approvals that wait, and that an "approve all" did not decide, since the person was not shown them before;
    to be named by id."""
    may_not_allow: bool = False
    """The person asked for that, too, and may not grant it."""


def read_word(text: str) -> Word | None:
    """Return the decision in a message; None for chat."""
    text = text.strip()
    if (found := _ALL.fullmatch(text)) is not None:
        return Word(said="approve", all=True, for_session=found[1] is not None)
    if (found := _ONE.fullmatch(text)) is None:
        return None
    said: Literal["yes", "approve", "no", "reject"] = found[1].lower()  # type: ignore[assignment] # one of the pattern's
    return Word(said=said, approval=found[2] and found[2].lower())


def is_near_word(text: str) -> bool:
    """Return whether a text that is no chat word says nothing but yes or no: in other words, or without any."""
    if not text.strip() or len(text) > _LONGEST:
        return False
    without = _ID.sub(" ", _EMOJI.sub(" ", text.casefold()))
    words = re.findall(r"\w+", _plain(without))
    return all(each in _SAY_YES_OR_NO or each in _FILL for each in words) and (
        not words or any(each in _SAY_YES_OR_NO for each in words)
    )
