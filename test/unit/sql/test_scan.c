/* The token scanner against PostgreSQL's rules (documentation, chapter 4.1) and against a real server's lexer, on which
 * the expectations of the harder texts were tried. Texts are copied into blocks of their exact size, so that a read
 * past the end is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "sql/scan.h"

/* One letter a token, then its text: "w:SELECT n:1". */
static const char kinds[] = {
	[TOKEN_END] = '.', [TOKEN_WORD] = 'w', [TOKEN_NAME] = 'i', [TOKEN_STRING] = 's', [TOKEN_NUMBER] = 'n', [TOKEN_PARAM] = 'p',
	[TOKEN_COMMENT] = 'c', [TOKEN_SEMICOLON] = ';', [TOKEN_PUNCT] = 'o', [TOKEN_OPEN] = '!',
};

enum mode { CONFORMING, BACKSLASH };

static void tokens_are_in(const char *sql, size_t len, const char *expected, enum mode mode, enum token (*next)(struct scan *))
{
	char *exact = malloc(len ? len : 1);
	memcpy(exact, sql, len);
	struct scan s = scan_of(exact, len);
	s.backslash = mode == BACKSLASH;
	char seen[2000] = "";
	size_t n = 0;
	enum token t;
	while ((t = next(&s)) != TOKEN_END)
		n += (size_t)snprintf(seen + n, sizeof(seen) - n, "%s%c:%.*s", n ? " " : "", kinds[t], (int)s.text.len, (const char *)s.text.p);
	assert_string_equal(seen, expected);
	assert_int_equal(next(&s), TOKEN_END); /* and stays there */
	free(exact);
}

static void tokens_are(const char *sql, const char *expected)
{
	tokens_are_in(sql, strlen(sql), expected, CONFORMING, scan_next);
}

static void backslash_tokens_are(const char *sql, const char *expected)
{
	tokens_are_in(sql, strlen(sql), expected, BACKSLASH, scan_next);
}

static void all_tokens_are(const char *sql, const char *expected)
{
	tokens_are_in(sql, strlen(sql), expected, CONFORMING, scan_next_all);
}

static void nothing_and_blanks_have_no_tokens(void **state)
{
	(void)state;
	tokens_are("", "");
	tokens_are(" \t\n\r\f\v", "");
	struct scan s = scan_of(NULL, 0);
	assert_int_equal(scan_next(&s), TOKEN_END);
	assert_int_equal(s.text.len, 0);
}

static void words_numbers_and_marks_are_told_apart(void **state)
{
	(void)state;
	tokens_are("SELECT a1,_b FROM t;", "w:SELECT w:a1 o:, w:_b w:FROM w:t ;:;");
	tokens_are("f(x)[1:2].y::int", "w:f o:( w:x o:) o:[ n:1 o:: n:2 o:] o:. w:y o::: w:int");
	tokens_are("a:=b", "w:a o::= w:b");
	tokens_are("caf\xc3\xa9 \xff", "w:caf\xc3\xa9 w:\xff");
}

static void a_dollar_inside_a_word_belongs_to_it(void **state)
{
	(void)state;
	tokens_are("foo$1", "w:foo$1");
	tokens_are("a$$b", "w:a$$b");
	tokens_are("SELECT 1 AS a$$; DELETE FROM t; SELECT 2 AS b$$", "w:SELECT n:1 w:AS w:a$$ ;:; w:DELETE w:FROM w:t ;:; w:SELECT n:2 w:AS w:b$$");
}

static void a_parameter_is_a_dollar_and_digits(void **state)
{
	(void)state;
	tokens_are("$1 $23", "p:$1 p:$23");
	tokens_are("$1$2", "p:$1 p:$2");
	tokens_are("$1a", "p:$1 w:a");
	tokens_are("$ $", "o:$ o:$");
	tokens_are("$", "o:$");
}

static void a_plain_string_doubles_its_quotes(void **state)
{
	(void)state;
	tokens_are("'a' x", "s:'a' w:x");
	tokens_are("'a''; DELETE FROM t; --'", "s:'a''; DELETE FROM t; --'");
	tokens_are("''", "s:''");
	tokens_are("''''", "s:''''");
	tokens_are("'\\'; x", "s:'\\' ;:; w:x");
}

static void an_e_string_knows_backslashes(void **state)
{
	(void)state;
	tokens_are("E'\\'; DELETE FROM t; --'", "s:E'\\'; DELETE FROM t; --'");
	tokens_are("e'\\\\'; x", "s:e'\\\\' ;:; w:x");
	tokens_are("e 'x'", "w:e s:'x'");
	tokens_are("re'x\\'", "w:re s:'x\\'");
}

static void without_conforming_strings_plain_ones_know_backslashes(void **state)
{
	(void)state;
	backslash_tokens_are("'\\'; x'", "s:'\\'; x'");
	backslash_tokens_are("N'\\'; x'", "s:N'\\'; x'");
	backslash_tokens_are("B'1\\'; x", "s:B'1\\' ;:; w:x");
	backslash_tokens_are("$$\\$$ x", "s:$$\\$$ w:x");
	backslash_tokens_are("\"\\\" x", "i:\"\\\" w:x");
}

static void strings_have_prefixes(void **state)
{
	(void)state;
	tokens_are("N'x' n'x' B'101' b'1' X'1F' x'1' U&'d\\0061' u&'x'", "s:N'x' s:n'x' s:B'101' s:b'1' s:X'1F' s:x'1' s:U&'d\\0061' s:u&'x'");
	tokens_are("U&\"d\\0061\" u& 'x' u&x", "i:U&\"d\\0061\" w:u o:& s:'x' w:u o:& w:x");
	tokens_are("U&'\\'; x", "s:U&'\\' ;:; w:x");
	tokens_are("b\"x\"", "w:b i:\"x\"");
	tokens_are("1e'x'", "n:1 s:e'x'");
}

static void a_string_goes_on_behind_a_newline(void **state)
{
	(void)state;
	tokens_are("'a'\n'b' x", "s:'a'\n'b' w:x");
	tokens_are("'a' \t\r 'b'", "s:'a' \t\r 'b'");
	tokens_are("'a' -- note\n'; DELETE FROM t'", "s:'a' -- note\n'; DELETE FROM t'");
	tokens_are("'a'\n-- n\n--\n 'b'", "s:'a'\n-- n\n--\n 'b'");
	tokens_are("E'a'\n'\\'' x", "s:E'a'\n'\\'' w:x");
	tokens_are("'a' 'b'", "s:'a' s:'b'");
	tokens_are("'a'\n/**/'b'", "s:'a' s:'b'");
	tokens_are("'a'\n-- 'b'", "s:'a'");
	tokens_are("'a'\nE'b'", "s:'a' s:E'b'");
	tokens_are("'a'\n- 'b'", "s:'a' o:- s:'b'");
	tokens_are("\"a\"\n\"b\"", "i:\"a\" i:\"b\"");
	tokens_are("$$a$$\n'b'", "s:$$a$$ s:'b'");
}

static void a_dollar_string_ends_at_its_own_tag(void **state)
{
	(void)state;
	tokens_are("$$DELETE FROM t$$", "s:$$DELETE FROM t$$");
	tokens_are("$q$UPDATE t; $$ DROP TABLE t $$ $q$ x", "s:$q$UPDATE t; $$ DROP TABLE t $$ $q$ w:x");
	tokens_are("$a$ $A$ $a$", "s:$a$ $A$ $a$");
	tokens_are("$\xc3\xa9$;$\xc3\xa9$", "s:$\xc3\xa9$;$\xc3\xa9$");
	tokens_are("$a1$x$a1$", "s:$a1$x$a1$");
	tokens_are("$$ $a$$", "s:$$ $a$$");
	tokens_are("$a$$a$", "s:$a$$a$");
	tokens_are("$1$x$1$", "p:$1 !:$x$1$");
	tokens_are("$a b$", "o:$ w:a w:b$");
}

static void a_name_doubles_its_quotes(void **state)
{
	(void)state;
	tokens_are("\"a\"\"; DELETE FROM t; --\" x", "i:\"a\"\"; DELETE FROM t; --\" w:x");
	tokens_are("\"a;b\"", "i:\"a;b\"");
}

static void comments_nest_and_are_skipped(void **state)
{
	(void)state;
	tokens_are("/* a /* b */ ; DELETE FROM t; */ x", "w:x");
	tokens_are("/**/x/***/y/*/**/*/z", "w:x w:y w:z");
	tokens_are("/*/ */ x", "w:x");
	tokens_are("/* ' */ x --'", "w:x");
	tokens_are("/* -- */ x", "w:x");
	tokens_are("-- /*\nx", "w:x");
	tokens_are("'/*' x '*/'", "s:'/*' w:x s:'*/'");
}

static void a_line_comment_ends_at_cr_and_at_lf(void **state)
{
	(void)state;
	tokens_are("1; --x\rDELETE", "n:1 ;:; w:DELETE");
	tokens_are("--x\nDELETE", "w:DELETE");
	tokens_are("-- x", "");
	tokens_are("--", "");
}

static void comments_are_tokens_for_who_wants_them(void **state)
{
	(void)state;
	all_tokens_are("/*org='a'*/ SELECT 1 -- x\n;", "c:/*org='a'*/ w:SELECT n:1 c:-- x ;:;");
	all_tokens_are("/* /* */", "!:/* /* */");
}

static void numbers_are_whole(void **state)
{
	(void)state;
	tokens_are("42 3.5 4. .001 5e2 1.925e-3 1E+5 .5e1", "n:42 n:3.5 n:4. n:.001 n:5e2 n:1.925e-3 n:1E+5 n:.5e1");
	tokens_are("1..2", "n:1 o:.. n:2");
	tokens_are("1.2.3", "n:1.2 n:.3");
	tokens_are("1e", "n:1 w:e");
	tokens_are("1e+", "n:1 w:e o:+");
	tokens_are("1INTO", "n:1 w:INTO"); /* legal up to version 14: what follows must not vanish */
	tokens_are("1.INTO", "n:1. w:INTO");
	tokens_are("a.5", "w:a n:.5");
}

static void numbers_of_version_16_hide_nothing_from_version_14(void **state)
{
	(void)state;
	tokens_are("0x1F 0b11 0o17 1_000 1_0.5_0e1_0 0x_f 0x", "n:0x1F n:0b11 n:0o17 n:1_000 n:1_0.5_0e1_0 n:0x_f n:0 w:x");
	tokens_are("0xe$$; DELETE FROM t; SELECT 0xe$$", "n:0 w:xe$$ ;:; w:DELETE w:FROM w:t ;:; w:SELECT n:0 w:xe$$");
	tokens_are("1_0$$; 1e1_0$$;", "n:1 w:_0$$ ;:; n:1e1 w:_0$$ ;:;");
	tokens_are("0xfINTO 1_0INTO", "n:0 w:xfINTO n:1 w:_0INTO");
	tokens_are("0b1e'\' 1_0e'\'", "n:0 w:b1e s:'\' n:1 w:_0e s:'\'");
}

static void an_operator_is_one_token(void **state)
{
	(void)state;
	tokens_are("a<=b<>c||d", "w:a o:<= w:b o:<> w:c o:|| w:d");
	tokens_are("x ->> 'a' @> y ?& z", "w:x o:->> s:'a' o:@> w:y o:?& w:z");
	tokens_are("{\\}", "o:{ o:\\ o:}");
}

static void an_operator_ends_where_a_comment_begins(void **state)
{
	(void)state;
	tokens_are("1+--x\n2", "n:1 o:+ n:2");
	tokens_are("1*/*c*/2", "n:1 o:* n:2");
	tokens_are("1 -/* */ 2", "n:1 o:- n:2");
	tokens_are("@--x", "o:@");
	tokens_are("%---", "o:%");
}

/* "A multiple-character operator name cannot end in + or -, unless the name also contains" one of ~ ! @ # % ^ & | ` ? */
static void a_sign_behind_an_operator_stands_alone(void **state)
{
	(void)state;
	tokens_are("a=-1", "w:a o:= o:- n:1");
	tokens_are("a*+-1", "w:a o:* o:+ o:- n:1");
	tokens_are("@-1", "o:@- n:1");
	tokens_are("++1", "o:+ o:+ n:1");
	tokens_are("+*1", "o:+* n:1");
}

static void signs_without_end_neither_hide_a_comment_nor_take_forever(void **state)
{
	(void)state;
	for (size_t n = 55; n < 75; n++) {
		char sql[200], expected[600] = "o:+";
		memset(sql, '+', n);
		strcpy(sql + n, "/* x */ 1");
		for (size_t i = 1; i < n; i++)
			strcat(expected, " o:+");
		strcat(expected, " n:1");
		tokens_are(sql, expected);
	}
	size_t len = 4 << 20;
	char *signs = malloc(len);
	memset(signs, '+', len);
	struct scan s = scan_of(signs, len);
	size_t tokens = 0;
	while (scan_next(&s) != TOKEN_END)
		tokens++;
	assert_int_equal(tokens, len);
	free(signs);
}

static void what_never_ends_is_open_to_the_end(void **state)
{
	(void)state;
	static const char *const texts[] = {"'abc", "'abc''", "'a'\n'b", "E'\\'", "E'\\", "\"abc", "\"a\"\"", "U&\"x", "U&'x", "$$abc", "$$$", "$a$ $a",
		"$a$a$", "/* x", "/* /* */", "/*", "/*/", "N'x", "x'1"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char expected[50];
		snprintf(expected, sizeof(expected), "!:%s", texts[i]);
		tokens_are(texts[i], expected);
	}
}

static void a_nul_byte_is_a_mark_like_others(void **state)
{
	(void)state;
	struct scan s = scan_of("a\0b", 3);
	assert_int_equal(scan_next(&s), TOKEN_WORD);
	assert_int_equal(scan_next(&s), TOKEN_PUNCT);
	assert_false(scan_word_is(&s, ""));
	assert_int_equal(scan_next(&s), TOKEN_WORD);
}

static void every_cut_of_a_text_ends(void **state)
{
	(void)state;
	static const char text[] = "/*o='1'/**/*/ SELECT U&\"a\"\"\\0061\", E'x\\'y'\n'z' -- q\r , $t$ $ $t$ + -1.5e-3 || $1 . \"\xc3\xa9\" ; N'\\' b'1' a.b$ 0x1_F";
	for (size_t len = 0; len < sizeof(text); len++) {
		char *exact = malloc(len ? len : 1);
		memcpy(exact, text, len);
		for (int backslash = 0; backslash < 2; backslash++) {
			struct scan s = scan_of(exact, len);
			s.backslash = backslash;
			char value[64];
			size_t tokens = 0;
			while (scan_next_all(&s) != TOKEN_END) {
				scan_value(&s, value, sizeof(value));
				assert_true(++tokens <= len);
			}
			assert_ptr_equal(s.p, exact + len);
		}
		free(exact);
	}
}

static void a_word_is_compared_without_case(void **state)
{
	(void)state;
	struct scan s = scan_of("SeLeCT \"select\" _", 17);
	scan_next(&s);
	assert_true(scan_word_is(&s, "select"));
	assert_false(scan_word_is(&s, "selec"));
	assert_false(scan_word_is(&s, "selects"));
	assert_false(scan_word_is(&s, ""));
	scan_next(&s);
	assert_false(scan_word_is(&s, "select"));
	scan_next(&s);
	assert_true(scan_word_is(&s, "_"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_and_blanks_have_no_tokens),
		cmocka_unit_test(words_numbers_and_marks_are_told_apart),
		cmocka_unit_test(a_dollar_inside_a_word_belongs_to_it),
		cmocka_unit_test(a_parameter_is_a_dollar_and_digits),
		cmocka_unit_test(a_plain_string_doubles_its_quotes),
		cmocka_unit_test(an_e_string_knows_backslashes),
		cmocka_unit_test(without_conforming_strings_plain_ones_know_backslashes),
		cmocka_unit_test(strings_have_prefixes),
		cmocka_unit_test(a_string_goes_on_behind_a_newline),
		cmocka_unit_test(a_dollar_string_ends_at_its_own_tag),
		cmocka_unit_test(a_name_doubles_its_quotes),
		cmocka_unit_test(comments_nest_and_are_skipped),
		cmocka_unit_test(a_line_comment_ends_at_cr_and_at_lf),
		cmocka_unit_test(comments_are_tokens_for_who_wants_them),
		cmocka_unit_test(numbers_are_whole),
		cmocka_unit_test(numbers_of_version_16_hide_nothing_from_version_14),
		cmocka_unit_test(an_operator_is_one_token),
		cmocka_unit_test(an_operator_ends_where_a_comment_begins),
		cmocka_unit_test(a_sign_behind_an_operator_stands_alone),
		cmocka_unit_test(signs_without_end_neither_hide_a_comment_nor_take_forever),
		cmocka_unit_test(what_never_ends_is_open_to_the_end),
		cmocka_unit_test(a_nul_byte_is_a_mark_like_others),
		cmocka_unit_test(every_cut_of_a_text_ends),
		cmocka_unit_test(a_word_is_compared_without_case),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
