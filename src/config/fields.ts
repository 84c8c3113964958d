/** What the schemas say of each key, in the form that parsing, messages and `explain` need. */
import { z } from "zod";
import { type GroupName, groups, type SettingKey } from "./schema.ts";

export type ValueKind = "integer" | "number" | "boolean" | "string";

export interface Field {
  readonly key: SettingKey;
  readonly group: GroupName;
  readonly kind: ValueKind;
  readonly choices?: readonly string[];
  readonly defaultValue: string | number | boolean;
  readonly doc: string;
  /** What a value may be, in words: "must be …". */
  readonly rule: string;
  accepts(value: unknown): boolean;
}

interface JsonField {
  readonly type: ValueKind;
  readonly enum?: readonly string[];
  readonly default: string | number | boolean;
  readonly description: string;
  readonly rule?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
}

let made: ReadonlyMap<string, Field> | undefined;

/** Every key, in the order of the groups; made when it is first asked for, which an import of the package need not pay. */
export function fields(): ReadonlyMap<string, Field> {
  made ??= new Map((Object.keys(groups) as GroupName[]).flatMap(fieldsOf));
  return made;
}

function fieldsOf(group: GroupName): [string, Field][] {
  const schema = groups[group];
  const described = z.toJSONSchema(schema, { io: "input" }).properties as unknown as Record<string, JsonField>;
  return Object.entries(described).map(([key, json]): [string, Field] => {
    const own = (schema.shape as Record<string, z.ZodType>)[key]!;
    return [
      key,
      {
        key: key as SettingKey,
        group,
        kind: json.type,
        ...(json.enum && { choices: json.enum }),
        defaultValue: json.default,
        doc: json.description,
        rule: json.rule ?? ruleOf(json),
        accepts: (value) => own.safeParse(value).success,
      },
    ];
  });
}

function ruleOf(json: JsonField): string {
  if (json.enum) return `one of ${json.enum.join(", ")}`;
  if (json.type === "boolean") return "true or false";
  if (json.type === "string") return "text";
  const noun = json.type === "integer" ? "an integer" : "a number";
  const bounds = [
    json.minimum !== undefined && Number.MIN_SAFE_INTEGER < json.minimum && `at least ${json.minimum}`,
    json.exclusiveMinimum !== undefined && `above ${json.exclusiveMinimum}`,
    json.maximum !== undefined && json.maximum < Number.MAX_SAFE_INTEGER && `at most ${json.maximum}`,
    json.exclusiveMaximum !== undefined && `below ${json.exclusiveMaximum}`,
  ].filter((bound) => bound !== false);
  return [noun, bounds.join(" and ")].filter((part) => part !== "").join(" ");
}
