"""Login with an API key. The only script of the login page is the script for light and dark colours."""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qs, quote

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from oahu.service.api.access import SESSION_COOKIE
from oahu.service.page.layout import plain_page
from oahu.service.page.visitor import Visitor

__all__ = ["add_login", "redirect_to_login"]

_SEE_OTHER = 303
_MAX_FORM_BYTES = 4_096


def redirect_to_login(path: str) -> Response:
    """Return a redirect to the login page. After the login, the browser returns to ``path``."""
    return RedirectResponse(f"/login?next={quote(path, safe='')}", _SEE_OTHER)


def add_login(app: FastAPI, visitor: Visitor) -> None:
    """Add the login page and the logout to an application."""

    @app.get("/login", include_in_schema=False)
    async def show_login(request: Request) -> Response:
        if visitor.of_connection(request).role is not None:
            return RedirectResponse(_local_path(request.query_params.get("next")), _SEE_OTHER)
        return _login_page(request.query_params.get("next"))

    @app.post("/login", include_in_schema=False)
    async def log_in(request: Request) -> Response:
        form = parse_qs((await request.body())[:_MAX_FORM_BYTES].decode("utf-8", "replace"))
        target = form.get("next", ["/"])[0]
        session = visitor.sessions.start(form.get("key", [""])[0].strip())
        if session is None:
            return _login_page(
                target, "This API key is not valid, was revoked, or is limited to some collections.", 401
            )
        response = RedirectResponse(_local_path(target), _SEE_OTHER)
        secure = visitor.service.settings.https
        response.set_cookie(SESSION_COOKIE, session, path="/", httponly=True, samesite="strict", secure=secure)
        return response

    @app.post("/logout", include_in_schema=False)
    async def log_out(request: Request) -> Response:
        visitor.sessions.end(request.cookies.get(SESSION_COOKIE) or "")
        response = RedirectResponse("/login", _SEE_OTHER)
        response.delete_cookie(SESSION_COOKIE, path="/")
        return response


def _local_path(path: str | None) -> str:
    """Return ``path``, or the home page if ``path`` could lead to another site.

    >>> _local_path("/collections/digits?like=a"), _local_path("//other.example"), _local_path("https://other.example")
    ('/collections/digits?like=a', '/', '/')
    """
    if path is None or not path.startswith("/") or path[1:2] in ("/", "\\") or not path.isprintable():
        return "/"
    return path


def _login_page(target: str | None, problem: str = "", status: int = 200) -> Response:
    banner = f'<p class="banner" role="alert">{escape(problem)}</p>' if problem else ""
    return plain_page(
        "Log in - oahu",
        "<h1>Log in</h1><p>This service requires an API key. Create a key with <code>oahu keys add</code>.</p>"
        f'{banner}<form method="post" action="/login"><label for="key">API key</label>'
        f'<input type="hidden" name="next" value="{escape(_local_path(target), quote=True)}">'
        '<input id="key" name="key" type="password" required autofocus autocomplete="current-password" '
        'placeholder="oahu_..."><button type="submit" class="main">Log in</button></form>',
        status,
    )
