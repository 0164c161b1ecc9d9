import { describe, expect, it } from "vitest";
import { Texts } from "../src/index.js";

const keys = [
  "ai_service_busy_retrying", "ai_workload_retry_button", "session_checking_connection", "session_see_later",
  ...["summary", "guidance", "classification"].flatMap((workload) =>
    [`ai_workload_${workload}_error`, `session_${workload}_compiling`, `session_${workload}_taking_longer`]),
];
const textsIn = (language?: string, fetch?: typeof globalThis.fetch) => new Texts({ baseUrl: "https://api.test", language, fetch });

describe("built-in texts", () => {
  it.each("ar da de en es fi fr it ja ko nb nl pl pt sv zh".split(" "))("are complete in %s", (language) => {
    const texts = textsIn(language);
    const english = textsIn("en");
    expect(texts.language).toBe(language);
    expect(texts.direction).toBe(language === "ar" ? "rtl" : "ltr");
    for (const key of keys) {
      expect(texts.get(key)).not.toBe(key);
      if (language !== "en") expect(texts.get(key)).not.toBe(english.get(key));
    }
  });

  it.each([["pt-BR", "pt"], ["zh_Hant_TW", "zh"], ["no", "nb"], ["nn-NO", "nb"], ["DE", "de"], ["xx", "en"], ["", "en"], ["constructor", "en"]])(
    "for %j are those of %s", (tag, language) => expect(textsIn(tag).language).toBe(language),
  );

  it("leave an unknown key as it is, and no key without a text", () => {
    expect(textsIn("nb").get("no_such_key")).toBe("no_such_key");
    expect(textsIn("nb").get(null)).toBe("");
  });
});

it("stay as they are when the server cannot be reached", async () => {
  const texts = textsIn("nb", () => Promise.reject(new TypeError("no network")));
  await expect(texts.load()).rejects.toThrow("no network");
  expect(texts.get("ai_workload_retry_button")).toBe("Prøv igjen");
});
