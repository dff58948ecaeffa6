/* Framing and the field readers over a stream of arbitrary bytes, walked as the relay does: one frame after the other,
 * each body read as an error report and as a run of fields. */
#include "base/verify.h"
#include "wire/frame.h"
#include "wire/reader.h"
#include "wire/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len);

static void fields_read(const uint8_t *body, size_t len)
{
	struct reader r = reader_of(body, len);
	while (reader_left(&r) > 0) {
		size_t before = reader_left(&r);
		switch (read_u8(&r) % 4) {
		case 0: read_u16(&r); break;
		case 1: verify(strlen(read_str(&r)) < before); break;
		case 2: {
			uint32_t n = read_u32(&r);
			verify(read_bytes(&r, n).len <= before);
			break;
		}
		default: break;
		}
		verify(reader_left(&r) < before);
	}
	verify(!r.bad == reader_done(&r));
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct frame f;
	struct report r;
	while (frame_peek(p, len, &f) == PARSE_OK) {
		verify(f.size >= FRAME_HEAD && f.have >= FRAME_HEAD && f.have <= len && f.have <= f.size);
		verify(message_name(true, f.type) && message_name(false, f.type));
		verify(treat_of_client[f.type] <= TREAT_WHOLE && treat_of_server[f.type] <= TREAT_WHOLE);
		fields_read(p + FRAME_HEAD, f.have - FRAME_HEAD);
		if (report_read(p + FRAME_HEAD, f.have - FRAME_HEAD, &r))
			verify(strlen(r.severity) + strlen(r.sqlstate) + strlen(r.text) < f.have);
		p += f.have;
		len -= f.have;
	}
	return 0;
}
