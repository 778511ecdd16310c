"""Operations on the metric: the history, the model file, and the restoration of an earlier version."""

from __future__ import annotations

from anyio import to_thread
from fastapi import Request, Response

from oahu.service.api.access import CollectionForAdmin, CollectionForReading
from oahu.service.api.routing import new_router, wait_for
from oahu.service.api.schemas.common_schemas import CollectionName
from oahu.service.api.schemas.feedback_schemas import LogPosition, RestoreRequest
from oahu.service.api.schemas.metric_schemas import HistoryResponse, WeightsAtVersion

__all__ = ["router"]

router = new_router("metric")


@router.get("/{name}/history")
def get_history(name: CollectionName, collection: CollectionForReading) -> HistoryResponse:
    """Return the history of the weights of the metric."""
    points = [
        WeightsAtVersion(
            metric_version=point.version,
            constraints=point.constraints,
            weights=list(point.weights),
            error_rate=point.error_rate,
            time=point.time,
        )
        for point in collection.learner.history()
    ]
    return HistoryResponse(spaces=list(collection.published.weights), points=points)


@router.get(
    "/{name}/model",
    response_class=Response,
    responses={
        200: {"content": {"application/octet-stream": {}}, "description": "A model file, which oahu.load can read."}
    },
)
def download_model(name: CollectionName, collection: CollectionForReading) -> Response:
    """Return the learner as a model file, which oahu.load can read.

    The learner has learned all feedback, undos and restores that were accepted before the request.
    """
    headers = {"Content-Disposition": f'attachment; filename="{name}.oahu"'}
    return Response(collection.model_file(), media_type="application/octet-stream", headers=headers)


@router.put(
    "/{name}/model",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def replace_model(request: Request, name: CollectionName, collection: CollectionForAdmin) -> LogPosition:
    """Replace the learner by the learner in a model file. Later feedback trains the new learner."""
    data = await request.body()
    future = await to_thread.run_sync(collection.replace_model, data)
    return LogPosition(seq=await wait_for(future))


@router.post("/{name}/restore")
async def restore_metric(name: CollectionName, collection: CollectionForAdmin, body: RestoreRequest) -> LogPosition:
    """Restore an earlier version of the metric. All later log entries are undone."""
    return LogPosition(seq=await wait_for(collection.restore(body.metric_version)))
