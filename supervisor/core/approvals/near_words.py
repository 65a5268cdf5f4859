# ruff: noqa: RUF001 # the words of other alphabets have letters that look like ours
"""Near words: messages that say nothing but yes or no, and are no chat words. Pure.

    ok, Yes!, go ahead, approve., nein danke, 好的, a thumb

Theory: a near word never decides. While an approval waits it is no order to the agent either, because an agent that is
given "ok" after a denial goes on. So its writer is told what waits (runtime/chat.py).

Rules
- Near words are found generously: a wrong guess costs its writer one more message, and a miss is an order. Letters are
  compared without case and accents, and repeated ones as one ("yesss", "aprove"). A text without any word is one.
- A text that says what not to do ("do NOT run that") is a message: an agent that follows it does no harm.
"""

import re
import unicodedata
from typing import Final

from supervisor.core.ids import APPROVAL_ID

_LONGEST_CHARACTERS: Final = 200  # characters, also with an id
_EMOJI: Final = re.compile(r":[\w+-]+:|[+-]1\b")
"""An emoji that is written out, as Slack writes them."""
_ID: Final = re.compile(rf"\b{APPROVAL_ID}\b")
_TWICE: Final = re.compile(r"(\w)\1+")


def _plain(text: str) -> str:
    """Return a text without case and accents, and with repeated letters once."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return _TWICE.sub(r"\1", "".join(each for each in letters if unicodedata.category(each)[0] != "M"))


_SAY_YES_OR_NO: Final = frozenset(
    _plain("""
    yes y ya yah yea yeah yep yup yas aye ok okay okey okey-dokey oke k kk sure approve approved
    approves approving accept accepted allow allowed permit permitted permission grant granted
    confirm confirmed agree agreed authorize authorise authorized proceed continue go ahead lgtm
    fine alright right correct affirmative absolutely definitely certainly course perfect great good
    cool nice roger positive sgtm yolo do ship execute works green no n nope nah nay deny denied
    denies reject rejected refuse refused decline declined disapprove disallow forbid forbidden
    block negative stop wait hold cancel abort ja jawohl jo jep nein nee nö ne klar gerne genau
    genehmigt genehmigen einverstanden zustimmen passt mach los ablehnen abgelehnt lehne nicht oui
    ouais non accord approuver approuve approuvé refuser refusé daccord vas allez sí si vale claro
    dale aprobar aprobado apruebo adelante rechazar rechazado rechazo sim não nao aprovar aprovado
    aprovo recusar va bene approvo approvato approva certo rifiuto rifiuta akkoord goedgekeurd prima
    afwijzen tak nie zgoda zatwierdź ano schvaluji schválit dobre áno da net ок да нет ага хорошо
    давай одобряю разрешаю отклонить отклоняю согласен так ні добре гаразд bine nu evet hayır tamam
    olur onayla onaylıyorum reddet nej nei godkänn godkänd godkend godkjenn avvisa kyllä joo ei
    hyväksy hylkää igen nem rendben jóváhagyom ναι όχι οκ εντάξει כן לא אישור מאשר نعم لا موافق
    أوافق حسنا हाँ हां नहीं ठीक có không vâng đồng ý được iya tidak setuju ใช่ ไม่ ตกลง
    好 好的 是 是的 可以
    行 同意 批准 对 没问题 确认 不 不行 否 不要 不可以 拒绝 不同意 同意します 好啊 可 允許 拒絕
    はい いいえ いや うん 了解 了解です 承認 承認します 却下 却下します です
    いいよ 許可 拒否 お願いします 네 예 응 아니 아니요 아니오 승인 승인합니다 거절 좋아요 좋아 확인
    """).split()
)
"""Words that say yes or no, in the languages in which people write to us; compared as `_plain` leaves them."""
_FILL: Final = frozenset(
    _plain("""
    please pls plz thanks thank thx you u i we im me my am is are be it its this that these those
    them all both everything one first last the a an to for on with by now then just so very can
    could may might will would should must lets let us s t m d of run here looks sounds look sound
    way too up out make course session always once nothing problem bitte danke das es ist sein in
    ordnung merci svp stp plaît il vous te plait por favor gracias obrigado per favore grazie y de
    lo la le les moi pour je ich du wir dann mal ok next like more calls times min minute minutes h hour hours
    """).split()
)
"""Words that stand next to those, and say nothing by themselves."""


def is_near_word(text: str) -> bool:
    """Return whether a text says nothing but yes or no: in words that are no chat words, or without any word."""
    if not text.strip() or len(text) > _LONGEST_CHARACTERS:
        return False
    words = re.findall(r"\w+", _plain(_ID.sub(" ", _EMOJI.sub(" ", text.casefold()))))
    known = all(each in _SAY_YES_OR_NO or each in _FILL or each.isdecimal() for each in words)
    return known and (not words or any(each in _SAY_YES_OR_NO for each in words))
