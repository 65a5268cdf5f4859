"""The web inbox: pages for people, made on the server, kept up to date by a little script.

    models (pure)    markup, forms, inbox, timeline, story, tree    facts -> what a page shows
    templates        rendering, templates/, static/                 what a page shows -> HTML
    routes           routes, starting, reference, visits            what a browser asks -> the Supervisor

Rules
- Everything that was written elsewhere is hostile: each expression of a template is made visible (core/text/visible.py)
  and then escaped, by the environment and not by the template's author. No template says `safe`.
- A page can be read without the script. Deciding, sending and cancelling are forms, which need the token that the
  script keeps (web/auth.py). It takes its news from the same pages; there is one way to draw a thing.
- Nothing is loaded from elsewhere, nothing inline runs (Content-Security-Policy in rendering.py).
- What a person is about to press never moves: a decided card keeps its place, a new one comes last.
"""

from supervisor.channels.web.pages.routes import routes

__all__ = ["routes"]
