"""Logging in: an API key for a cookie. A page without scripts, so that nothing else is given to strangers."""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qs, quote

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from oahu.service.api.access import SESSION_COOKIE
from oahu.service.page.layout import plain
from oahu.service.page.visitor import Visit

__all__ = ["add_login", "to_login"]

_SEE_OTHER = 303
_LONGEST = 4_096  # characters of a form


def to_login(path: str) -> Response:
    """The way to the login, and from there to where one wanted to go."""
    return RedirectResponse(f"/login?next={quote(path, safe='')}", _SEE_OTHER)


def add_login(app: FastAPI, visit: Visit) -> None:
    """Let people log in and out."""

    @app.get("/login", include_in_schema=False)
    async def login(request: Request) -> Response:
        if visit.by(request).role is not None:
            return RedirectResponse(_local(request.query_params.get("next")), _SEE_OTHER)
        return _form(request.query_params.get("next"))

    @app.post("/login", include_in_schema=False)
    async def begin(request: Request) -> Response:
        form = parse_qs((await request.body())[:_LONGEST].decode("utf-8", "replace"))
        goal = form.get("next", ["/"])[0]
        session = visit.sessions.start(form.get("key", [""])[0].strip())
        if session is None:
            return _form(goal, "That key is not known here, or not any more.", 401)
        answer = RedirectResponse(_local(goal), _SEE_OTHER)
        secure = visit.service.settings.https
        answer.set_cookie(SESSION_COOKIE, session, path="/", httponly=True, samesite="strict", secure=secure)
        return answer

    @app.post("/logout", include_in_schema=False)
    async def end(request: Request) -> Response:
        visit.sessions.end(request.cookies.get(SESSION_COOKIE) or "")
        answer = RedirectResponse("/login", _SEE_OTHER)
        answer.delete_cookie(SESSION_COOKIE, path="/")
        return answer


def _local(path: str | None) -> str:
    """A path of this service; the first page for anything else.

    >>> _local("/collections/digits?like=a"), _local("//elsewhere.example"), _local("https://elsewhere.example")
    ('/collections/digits?like=a', '/', '/')
    """
    if path is None or not path.startswith("/") or path[1:2] in ("/", "\\") or not path.isprintable():
        return "/"
    return path


def _form(goal: str | None, problem: str = "", status: int = 200) -> Response:
    told = f'<p class="banner" role="alert">{escape(problem)}</p>' if problem else ""
    return plain(
        "Log in - oahu",
        "<h1>Log in</h1><p>This service asks for a key. <code>oahu keys add</code> makes one.</p>"
        f'{told}<form method="post" action="/login"><label for="key">API key</label>'
        f'<input type="hidden" name="next" value="{escape(_local(goal), quote=True)}">'
        '<input id="key" name="key" type="password" required autofocus autocomplete="current-password" '
        'placeholder="oahu_..."><button type="submit" class="main">Log in</button></form>',
        status,
    )
