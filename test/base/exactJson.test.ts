/** Numbers of JSON as Python reads them. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseExactJson, shown } from "../../src/base/exactJson.ts";

describe("exact JSON", () => {
  it("tells 1.0 from 1, and has every digit of an integer", () => {
    const text = String.raw`{"id":12345678901234567890,"t":1.0,"u":-0.0,"e":[1E2,1.5,7,-3,1e400],"s":"1.0 \\\" 2.0","a\"1.0" : "#\\"}`;
    expect(parseExactJson(text)).toEqual({
      id: 12345678901234567890n,
      t: Object(1),
      u: Object(-0),
      e: [Object(100), 1.5, 7, -3, Number.POSITIVE_INFINITY],
      s: '1.0 \\" 2.0',
      'a"1.0': "#\\",
    });
    expect(parseExactJson("9007199254740993")).toBe(9007199254740993n);
    expect(parseExactJson(' "3.0"')).toBe("3.0");
  });

  it("is JSON.parse for what JavaScript writes", () => {
    fc.assert(
      fc.property(fc.json(), fc.json(), (one, other) => {
        const text = `[${one} ,1.0,{"a":${other}}]`;
        const plain = (value: unknown): unknown =>
          JSON.parse(JSON.stringify(value, (_, v) => (typeof v === "bigint" ? Number(v) : v)));
        expect(plain(parseExactJson(text))).toEqual(plain(JSON.parse(text)));
      }),
    );
  });

  it("refuses what is no JSON, is too deep, or has a number that Python refuses", () => {
    expect(() => parseExactJson("{1.0}")).toThrow(SyntaxError);
    expect(() => parseExactJson(`${"[".repeat(300)}1.0${"]".repeat(300)}`)).toThrow("deeper than 256");
    expect(() => parseExactJson("1".repeat(5000))).toThrow("more than 4300 digits");
  });

  it("is shown in messages, large integers too, and cut where it is long", () => {
    expect(shown(parseExactJson("12345678901234567890"))).toBe("12345678901234567890");
    expect(shown(parseExactJson('{"a":[1.0,98765432109876543210]}'))).toBe('{"a":[1,"98765432109876543210"]}');
    expect(shown("a".repeat(100))).toBe(`"${"a".repeat(59)}…`);
  });
});
