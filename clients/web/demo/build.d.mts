/** Where the built files belong. */
export declare const target: string;
/** The built files' texts, by name. */
export declare function builtFiles(): Promise<Record<string, string>>;
