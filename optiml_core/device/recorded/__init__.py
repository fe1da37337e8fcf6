"""What a GPU answered, kept in a folder, and a device that answers from it: a search can be replayed with no GPU."""

from optiml_core.device.recorded.device import RecordedDevice
from optiml_core.device.recorded.record import DeviceRecord, read_record, write_record
from optiml_core.device.recorded.recorder import RecordingDevice

__all__ = ["DeviceRecord", "RecordedDevice", "RecordingDevice", "read_record", "write_record"]
