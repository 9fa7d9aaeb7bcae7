"""Activities: names under which workers ask for tasks."""

from __future__ import annotations

from holdfast.asl.arns import ACTIVITY
from holdfast.asl.stored.records import StoredActivity
from holdfast.http.states import asked
from holdfast.http.states.faults import no_activity
from holdfast.http.states.names import activity_arn, checked_name
from holdfast.http.states.service import Answer, Service, limit_of, seconds
from holdfast.http.states.tags import tags_of


async def create(service: Service, request: asked.CreateActivity) -> Answer:
    """Keep an activity. The same name again is no error."""
    activity = StoredActivity(name=checked_name(request.name), created_at=service.now_ms(), tags=tags_of(request.tags))
    kept = await service.shelf.add_activity(activity)
    return {
        "activityArn": service.account.arn(ACTIVITY, kept.name),
        "creationDate": seconds(kept.created_at),
    }


async def delete(service: Service, request: asked.OfActivity) -> Answer:
    """Forget an activity."""
    await service.shelf.remove_activity(activity_arn(request.activity_arn).name)
    return {}


async def describe(service: Service, request: asked.OfActivity) -> Answer:
    """An activity."""
    arn = activity_arn(request.activity_arn)
    found = await service.shelf.activity(arn.name)
    if found is None:
        raise no_activity(arn.text)
    return _told(service, found)


async def list_all(service: Service, request: asked.Listing) -> Answer:
    """Activities, in the order of their names."""
    page = await service.shelf.activities(service.after(request), limit_of(request))
    return service.page("activities", [_told(service, each.value) for each in page.documents], page.cursor)


def _told(service: Service, activity: StoredActivity) -> Answer:
    return {
        "activityArn": service.account.arn(ACTIVITY, activity.name),
        "name": activity.name,
        "creationDate": seconds(activity.created_at),
    }
