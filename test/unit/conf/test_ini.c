/* INI files: what Debian's inih would do to real ones must not happen to ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "conf/ini.h"

/* Everything read, one a line: "file:line [section] key=value", sections as "file:line [section]", faults as "file:line ! text". */
struct seen {
	struct buf rows, faults;
	bool ok;
};

static void on_row(void *arg, const struct ini_row *row)
{
	struct seen *seen = arg;

	buf_add_fmt(&seen->rows, "%s:%d [%s]", row->file, row->line, row->section);
	if (row->key) {
		buf_add_fmt(&seen->rows, " %s=", row->key);
		buf_add_str(&seen->rows, row->value);
	}
	buf_add_u8(&seen->rows, '\n');
}

static void on_fault(void *arg, const char *file, int line, const char *text)
{
	struct seen *seen = arg;

	buf_add_fmt(&seen->faults, "%s:%d ! %s\n", file, line, text);
}

static struct seen read_span(struct span text)
{
	struct seen seen = {0};

	seen.ok = ini_read_text("t", text, on_row, on_fault, &seen);
	buf_add_u8(&seen.rows, '\0');
	buf_add_u8(&seen.faults, '\0');
	assert_int_equal(seen.ok, seen.faults.len == 1);
	return seen;
}

static void forget(struct seen *seen)
{
	buf_free(&seen->rows);
	buf_free(&seen->faults);
}

static void reads_span(struct span text, const char *rows, const char *faults)
{
	struct seen seen = read_span(text);

	assert_string_equal((char *)seen.rows.p, rows);
	assert_string_equal((char *)seen.faults.p, faults);
	forget(&seen);
}

static void reads(const char *text, const char *rows)
{
	reads_span(span_str(text), rows, "");
}

static void faults(const char *text, const char *rows, const char *why)
{
	reads_span(span_str(text), rows, why);
}

static void a_key_has_its_section_and_line(void **state)
{
	(void)state;
	reads("; comment\n# comment\n\n[a]\nk = v\n[b]\nk=w\n", "t:4 [a]\nt:5 [a] k=v\nt:6 [b]\nt:7 [b] k=w\n");
}

static void a_section_without_keys_is_told(void **state)
{
	(void)state;
	reads("[pgweir]\n[databases]", "t:1 [pgweir]\nt:2 [databases]\n");
}

/* A value of so many bytes arrives whole. */
static void long_value(size_t len)
{
	struct buf text = {0};
	struct seen seen;
	size_t head;

	buf_add_str(&text, "[s]\nk = ");
	head = text.len;
	for (size_t i = 0; i < len; i++)
		buf_add_u8(&text, (uint8_t)('a' + i % 26));
	buf_add_str(&text, "\nnext = 1\n");
	seen = read_span(buf_span(&text));
	assert_true(seen.ok);
	assert_int_equal(strlen((char *)seen.rows.p), strlen("t:1 [s]\nt:2 [s] k=\nt:3 [s] next=1\n") + len);
	assert_memory_equal(seen.rows.p + strlen("t:1 [s]\nt:2 [s] k="), text.p + head, len);
	forget(&seen);
	buf_free(&text);
}

static void a_value_of_4_kib_is_whole(void **state)
{
	(void)state;
	long_value(190);
	long_value(200);
	long_value(4096);
}

static void a_line_of_1_mib_is_whole(void **state)
{
	(void)state;
	long_value(1 << 20);
}

static void a_key_longer_than_inihs_fifty_is_whole(void **state)
{
	(void)state;
	reads("[s]\n0123456789012345678901234567890123456789012345678901234567890123456789=v\n",
	      "t:1 [s]\nt:2 [s] 0123456789012345678901234567890123456789012345678901234567890123456789=v\n");
}

static void a_semicolon_or_hash_inside_a_value_stays(void **state)
{
	(void)state;
	reads("[s]\na = host=h password=x ; y # z\nb = ;\nc = #1\n",
	      "t:1 [s]\nt:2 [s] a=host=h password=x ; y # z\nt:3 [s] b=;\nt:4 [s] c=#1\n");
}

static void an_indented_line_is_a_line_of_its_own(void **state)
{
	(void)state;
	reads("[s]\na = 1\n  b = 2\n\tc = 3\n  [t]\n   ; comment\n  d = 4", "t:1 [s]\nt:2 [s] a=1\nt:3 [s] b=2\nt:4 [s] c=3\nt:5 [t]\nt:7 [t] d=4\n");
}

static void crlf_ends_a_line(void **state)
{
	(void)state;
	reads("[s]\r\na = 1\r\n\r\nb =\r\n", "t:1 [s]\nt:2 [s] a=1\nt:4 [s] b=\n");
}

static void the_last_line_needs_no_newline(void **state)
{
	(void)state;
	reads("[s]\na = 1", "t:1 [s]\nt:2 [s] a=1\n");
	reads("[s]", "t:1 [s]\n");
	reads("", "");
}

static void a_byte_order_mark_is_skipped(void **state)
{
	(void)state;
	reads("\xef\xbb\xbf[s]\na=1\n", "t:1 [s]\nt:2 [s] a=1\n");
}

static void a_colon_does_not_end_a_key(void **state)
{
	(void)state;
	reads("[orgs]\nacme:eu = pool_size=3\n", "t:1 [orgs]\nt:2 [orgs] acme:eu=pool_size=3\n");
}

static void a_quoted_key_may_hold_blanks_and_signs(void **state)
{
	(void)state;
	reads("[databases]\n\"my db = \"\"x\"\"\" = host=h\n\"*\" = a\n",
	      "t:1 [databases]\nt:2 [databases] my db = \"x\"=host=h\nt:3 [databases] *=a\n");
}

static void a_key_before_any_section_has_an_empty_one(void **state)
{
	(void)state;
	reads("a = 1\n", "t:1 [] a=1\n");
}

static void a_bad_line_is_told_and_not_shown(void **state)
{
	(void)state;
	faults("[s]\nsecret words\na=1\n= 3\n\"open = 4\nb c = 5\n", "t:1 [s]\nt:3 [s] a=1\n",
	       "t:2 ! not a setting; expected key = value\nt:4 ! not a setting; expected key = value\n"
	       "t:5 ! not a setting; expected key = value\nt:6 ! not a setting; expected key = value\n");
}

static void a_bad_section_is_told(void **state)
{
	(void)state;
	faults("[s\n[]\n[s] x\n", "", "t:1 ! not a section; expected [name]\nt:2 ! not a section; expected [name]\nt:3 ! not a section; expected [name]\n");
}

static void a_nul_byte_spoils_its_line_only(void **state)
{
	static const char text[] = "[s]\na=1\0two\nb=2\n";

	(void)state;
	reads_span((struct span){(const uint8_t *)text, sizeof(text) - 1}, "t:1 [s]\nt:3 [s] b=2\n", "t:2 ! the line holds a NUL byte\n");
}

/* Files in a folder of their own, which is the working directory meanwhile. */
static int to_folder(void **state)
{
	char name[] = "/tmp/test_ini.XXXXXX";

	assert_non_null(mkdtemp(name));
	assert_int_equal(chdir(name), 0);
	*state = mem_str(name);
	return 0;
}

static int from_folder(void **state)
{
	char *name = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -r '%s'", name);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(system(command), 0);
	mem_free(name);
	return 0;
}

static void write_file(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void an_included_file_stands_in_its_lines_place(void **state)
{
	(void)state;
	write_file("in.ini", "b = 2\n[t]\nc = 3");
	reads("[s]\na = 1\n%include in.ini\nd = 4\n  %include   in.ini  \n",
	      "t:1 [s]\nt:2 [s] a=1\nin.ini:1 [s] b=2\nin.ini:2 [t]\nin.ini:3 [t] c=3\nt:4 [t] d=4\nin.ini:1 [t] b=2\nin.ini:2 [t]\nin.ini:3 [t] c=3\n");
}

static void a_missing_included_file_is_a_fault_of_its_line(void **state)
{
	(void)state;
	faults("[s]\n%include none.ini\na=1\n", "t:1 [s]\nt:3 [s] a=1\n", "t:2 ! cannot open none.ini: No such file or directory\n");
	faults("%include\n%other x\n%includes x\n", "", "t:1 ! %include names no file\nt:2 ! unknown directive; %include is the only one\nt:3 ! unknown directive; %include is the only one\n");
}

static void a_file_that_includes_itself_is_told(void **state)
{
	(void)state;
	write_file("self.ini", "%include self.ini\na = 1\n");
	faults("[s]\n%include self.ini\n", "t:1 [s]\nself.ini:2 [s] a=1\n", "self.ini:1 ! the file includes itself\n");
}

static void ten_levels_of_include_are_read_and_the_eleventh_is_not(void **state)
{
	char name[16], text[64];

	(void)state;
	for (int i = 1; i <= 11; i++) {
		snprintf(name, sizeof(name), "%d.ini", i);
		snprintf(text, sizeof(text), "%%include %d.ini\n", i + 1);
		write_file(name, text);
	}
	write_file("10.ini", "deep = 1\n");
	reads("%include 1.ini\n", "10.ini:1 [] deep=1\n");
	write_file("10.ini", "%include 11.ini\n");
	faults("%include 1.ini\n", "", "10.ini:1 ! %include goes deeper than 10 files\n");
}

static void a_missing_main_file_is_a_fault(void **state)
{
	struct seen seen = {0};

	(void)state;
	assert_false(ini_read_file("none.ini", on_row, on_fault, &seen));
	buf_add_u8(&seen.faults, '\0');
	assert_string_equal((char *)seen.faults.p, "none.ini:0 ! cannot open none.ini: No such file or directory\n");
	assert_int_equal(mkdir("folder", 0700), 0);
	buf_free(&seen.faults);
	assert_false(ini_read_file("folder", on_row, on_fault, &seen));
	buf_add_u8(&seen.faults, '\0');
	assert_string_equal((char *)seen.faults.p, "folder:0 ! cannot read folder: Is a directory\n");
	forget(&seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_has_its_section_and_line),
		cmocka_unit_test(a_section_without_keys_is_told),
		cmocka_unit_test(a_value_of_4_kib_is_whole),
		cmocka_unit_test(a_line_of_1_mib_is_whole),
		cmocka_unit_test(a_key_longer_than_inihs_fifty_is_whole),
		cmocka_unit_test(a_semicolon_or_hash_inside_a_value_stays),
		cmocka_unit_test(an_indented_line_is_a_line_of_its_own),
		cmocka_unit_test(crlf_ends_a_line),
		cmocka_unit_test(the_last_line_needs_no_newline),
		cmocka_unit_test(a_byte_order_mark_is_skipped),
		cmocka_unit_test(a_colon_does_not_end_a_key),
		cmocka_unit_test(a_quoted_key_may_hold_blanks_and_signs),
		cmocka_unit_test(a_key_before_any_section_has_an_empty_one),
		cmocka_unit_test(a_bad_line_is_told_and_not_shown),
		cmocka_unit_test(a_bad_section_is_told),
		cmocka_unit_test(a_nul_byte_spoils_its_line_only),
		cmocka_unit_test_setup_teardown(an_included_file_stands_in_its_lines_place, to_folder, from_folder),
		cmocka_unit_test_setup_teardown(a_missing_included_file_is_a_fault_of_its_line, to_folder, from_folder),
		cmocka_unit_test_setup_teardown(a_file_that_includes_itself_is_told, to_folder, from_folder),
		cmocka_unit_test_setup_teardown(ten_levels_of_include_are_read_and_the_eleventh_is_not, to_folder, from_folder),
		cmocka_unit_test_setup_teardown(a_missing_main_file_is_a_fault, to_folder, from_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
