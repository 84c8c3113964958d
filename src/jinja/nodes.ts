/** A parsed template, as the library of Jinja gives it. */

interface Name {
  readonly type: "Identifier";
  readonly value: string;
}
interface KeywordArgument {
  readonly type: "KeywordArgumentExpression";
  readonly key: Name;
  readonly value: Node;
}
export interface Call {
  readonly type: "CallExpression";
  readonly callee: Node;
  readonly args: readonly Node[];
}
type Parameters = readonly (Name | KeywordArgument)[];
type Block = readonly Node[];

export interface For {
  readonly type: "For";
  readonly loopvar: Node;
  readonly iterable: Node;
  readonly body: Block;
  readonly defaultBlock: Block;
}
export interface Macro {
  readonly type: "Macro";
  readonly name: Name;
  readonly args: Parameters;
  readonly body: Block;
}
export interface SetStatement {
  readonly type: "Set";
  readonly assignee: Node;
  /** null: what the body writes. */
  readonly value: Node | null;
  readonly body: Block;
}
export interface CallStatement {
  readonly type: "CallStatement";
  readonly call: Call;
  readonly callerArgs: Parameters | null;
  readonly body: Block;
}
export interface Member {
  readonly type: "MemberExpression";
  readonly object: Node;
  readonly property: Node;
  readonly computed: boolean;
}
export interface Slice {
  readonly type: "SliceExpression";
  readonly start?: Node;
  readonly stop?: Node;
  readonly step?: Node;
}

export type Node =
  | { readonly type: "Program"; readonly body: Block }
  | { readonly type: "If"; readonly test: Node; readonly body: Block; readonly alternate: Block }
  | For
  | Macro
  | SetStatement
  | CallStatement
  | { readonly type: "FilterStatement"; readonly filter: Name | Call; readonly body: Block }
  | { readonly type: "Break" | "Continue" | "Comment" }
  | Name
  | KeywordArgument
  | Call
  | Member
  | Slice
  | { readonly type: "SpreadExpression" | "KeywordSpreadExpression"; readonly argument: Node }
  | { readonly type: "IntegerLiteral" | "FloatLiteral"; readonly value: number }
  | { readonly type: "StringLiteral"; readonly value: string }
  | { readonly type: "ArrayLiteral" | "TupleLiteral"; readonly value: readonly Node[] }
  | { readonly type: "ObjectLiteral"; readonly value: ReadonlyMap<Node, Node> }
  | {
      readonly type: "BinaryExpression";
      readonly operator: { readonly value: string };
      readonly left: Node;
      readonly right: Node;
    }
  | { readonly type: "UnaryExpression"; readonly operator: { readonly value: string }; readonly argument: Node }
  | { readonly type: "FilterExpression"; readonly operand: Node; readonly filter: Name | Call }
  | { readonly type: "TestExpression"; readonly operand: Node; readonly negate: boolean; readonly test: Name }
  /** `lhs if test` without an else; in a loop the condition on its items. */
  | { readonly type: "SelectExpression"; readonly lhs: Node; readonly test: Node }
  | { readonly type: "Ternary"; readonly condition: Node; readonly trueExpr: Node; readonly falseExpr: Node };
