"""ASGI middleware: checks and limits for every request. Each middleware has its own module."""

from __future__ import annotations

from starlette.middleware import Middleware

from oahu.service.api.access import AccessControl
from oahu.service.api.middleware.access_log import AccessLogMiddleware
from oahu.service.api.middleware.authentication import AuthenticationMiddleware
from oahu.service.api.middleware.body_limit import BodyLimitMiddleware
from oahu.service.api.middleware.error_response import ErrorResponseMiddleware
from oahu.service.api.middleware.host_check import HostCheckMiddleware
from oahu.service.api.middleware.origin_check import OriginCheckMiddleware
from oahu.service.api.middleware.rate_limit import RateLimitMiddleware
from oahu.service.api.middleware.request_id import RequestIdMiddleware
from oahu.service.api.middleware.security_headers import SecurityHeadersMiddleware
from oahu.service.api.monitoring import PrometheusMetrics
from oahu.service.settings import Settings

__all__ = ["middleware_stack"]


def middleware_stack(settings: Settings, access: AccessControl, metrics: PrometheusMetrics) -> list[Middleware]:
    """Return all middleware, outermost first.

    The first four middlewares are outside the checks, because they also process the error responses of the checks.
    Cheap checks run before expensive checks. The request body is read last, after authentication.
    """
    return [
        Middleware(RequestIdMiddleware),
        Middleware(SecurityHeadersMiddleware),
        Middleware(AccessLogMiddleware, metrics=metrics),
        Middleware(ErrorResponseMiddleware),
        Middleware(HostCheckMiddleware, settings=settings, access=access),
        Middleware(OriginCheckMiddleware),
        Middleware(RateLimitMiddleware, settings=settings, access=access),
        Middleware(AuthenticationMiddleware, access=access),
        Middleware(BodyLimitMiddleware, settings=settings),
    ]
