"""What a browser without scripts submits of a page's form."""

from html.parser import HTMLParser


class Submitted(HTMLParser):
    """The fields of the first form that has a button of this text, as they are submitted unchanged."""

    def __init__(self, page: str, button: str) -> None:
        super().__init__()
        self.fields: dict[str, str] | None = None
        self._button = button
        self._form: dict[str, str] = {}
        self._select: str | None = None
        self._text: tuple[str, str] | None = None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        found = {name: value or "" for name, value in attributes}
        if tag == "form":
            self._form = {}
        elif tag == "input" and found.get("type") in ("checkbox", "radio"):
            self._form |= {found["name"]: found["value"]} if "checked" in found else {}
        elif tag == "input":
            self._form[found["name"]] = found["value"].replace("\r", "").replace("\n", "")
        elif tag == "select":
            self._select = found["name"]
            self._form.pop(found["name"], None)
        elif tag == "option" and self._select is not None:
            if "selected" in found or self._select not in self._form:  # the first one, where none is selected
                self._form[self._select] = found["value"]
        elif tag in ("textarea", "button"):
            self._text = (found.get("name", ""), "")

    def handle_data(self, data):
        if self._text is not None:
            self._text = (self._text[0], self._text[1] + data)

    def handle_endtag(self, tag):
        if tag == "textarea" and self._text is not None:
            text = self._text[1].removeprefix("\n")
            self._form[self._text[0]] = text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
        elif tag == "button" and self._text is not None and self._text[1] == self._button:
            self.fields = self._form if self.fields is None else self.fields
        elif tag == "select":
            self._select = None
        self._text = None if tag in ("textarea", "button") else self._text
