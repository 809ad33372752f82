"""Packets of MQTT, looked at before the client reads them: what somebody sends holds up nobody else.

The client keeps all of a packet, of 256 MB at most, and copies that. Of properties (MQTT 5) it copies all that is left
for each of them, which takes the square of their length: 400 kB that anybody published took 17 s, with Python's lock
held, so that all live sources and sinks of a node stood still.
"""

from __future__ import annotations

from typing import Any

from scheduler.model.bounds import CONTROL_BYTES

RECEIVED_BYTES = 1 << 20  # at a time
MOST_OWED = 65_535  # packets that wait to be taken: there are no more names of messages to be acknowledged
_KIND, _QOS, _QOS_2 = 0xF0, 0x06, 0x04  # of a packet's first byte


class CutPacket(bytearray):
    """The beginning of a packet that is larger than one may be."""

    most = CONTROL_BYTES.most

    def __iadd__(self, received: Any) -> CutPacket:
        super().__iadd__(received[:max(0, self.most - len(self))])
        return self


def bound_packets(client: Any, *, most_bytes: int = 0) -> None:
    """Let a client keep no more of a packet than one may have, and read no properties of messages, which nobody needs.

    Parameters
    ----------
    client : paho.mqtt.client.Client
        Before it connects. A packet that nobody asked for ends its connection.
    most_bytes : int, optional
        Of a packet that brings a message; such a packet is cut, a `CutPacket`. 0: none is asked for.
    """
    from paho.mqtt.client import MalformedPacket, MQTTv5
    from paho.mqtt.enums import MessageType

    receive, handle, is_5 = client._sock_recv, client._packet_handle, client._protocol == MQTTv5

    def is_message(packet: dict[str, Any]) -> bool:
        return packet["command"] & _KIND == MessageType.PUBLISH and most_bytes > 0

    def received(size: int) -> bytes:
        packet = client._in_packet
        most = most_bytes if is_message(packet) else CONTROL_BYTES.most
        if packet["remaining_length"] > most and not isinstance(packet["packet"], CutPacket):
            packet["packet"] = CutPacket(packet["packet"])
            packet["packet"].most = most
        return receive(min(size, RECEIVED_BYTES))

    def handled() -> Any:
        packet = client._in_packet
        if len(client._out_packet) > MOST_OWED:  # it asks on and on, and takes no answer
            raise MalformedPacket("one more, while nothing is taken")
        if not is_message(packet):
            if isinstance(packet["packet"], CutPacket) or packet["command"] & _KIND == MessageType.PUBLISH:
                raise MalformedPacket("one that nobody asked for")
        elif packet["command"] & _QOS == _QOS_2:  # the client keeps these until they are released, however many
            raise MalformedPacket("QoS 2, which nobody asked for")
        elif is_5:
            _cut_properties(packet["packet"], has_mid=bool(packet["command"] & _QOS))
        return handle()

    client._sock_recv, client._packet_handle = received, handled


def _cut_properties(packet: bytearray, *, has_mid: bool) -> None:
    """Take a message's properties out of its packet (MQTT 5, 3.3.2.3). Where they claim to be longer than what is there
    of the packet, nothing is left behind them."""
    begin = 2 + int.from_bytes(packet[:2]) + (2 if has_mid else 0)
    length, behind = 0, begin
    for index, digit in enumerate(packet[begin:begin + 4]):
        length, behind = length | (digit & 0x7F) << 7 * index, begin + index + 1
        if not digit & 0x80:
            break
    if length:
        packet[begin:behind + length] = b"\0"
