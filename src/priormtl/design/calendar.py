"""Parts of dates that repeat: hour of the day, day of the week, day of the year."""

import numpy as np

from priormtl._arrays import Array

# Periods in the unit of the part, and in days.
CALENDAR = {
    "hour of day": (24.0, 1.0),
    "day of week": (7.0, 7.0),
    "day of year": (365.25, 365.25),
}
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def read_calendar(part: str, days: Array) -> Array:
    """Hours of the day, days of the week (Monday is 0), or of the year; "": all."""
    if part == "hour of day":
        return days % 1.0 * 24.0
    if part == "day of week":  # the first of January 1970 was a Thursday
        return np.floor(days + 3.0) % 7.0
    return days % 365.25 if part else days
