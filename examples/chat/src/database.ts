// Made by `svc types`. Do not edit: it is written again when the schema changes.

export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[];

export type Database = {
  public: {
    Tables: {
      rooms: {
        Row: {
          id: string;
          name: string;
          code: string;
          created_at: string;
        };
        Insert: {
          id?: string;
          name: string;
          code?: string;
          created_at?: string;
        };
        Update: {
          id?: string;
          name?: string;
          code?: string;
          created_at?: string;
        };
        Relationships: [];
      };
      members: {
        Row: {
          room_id: string;
          user_id: string;
          name: string;
          role: "owner" | "member";
          joined_at: string;
        };
        Insert: {
          room_id: string;
          user_id?: string;
          name?: string;
          role?: "owner" | "member";
          joined_at?: string;
        };
        Update: {
          room_id?: string;
          user_id?: string;
          name?: string;
          role?: "owner" | "member";
          joined_at?: string;
        };
        Relationships: [
          {
            foreignKeyName: "members_room_id_fkey";
            columns: ["room_id"];
            isOneToOne: false;
            referencedRelation: "rooms";
            referencedColumns: ["id"];
          },
        ];
      };
      messages: {
        Row: {
          id: number;
          room_id: string;
          author_id: string;
          body: string;
          sent_at: string;
        };
        Insert: {
          id?: never;
          room_id: string;
          author_id?: string;
          body: string;
          sent_at?: string;
        };
        Update: {
          id?: never;
          room_id?: string;
          author_id?: string;
          body?: string;
          sent_at?: string;
        };
        Relationships: [
          {
            foreignKeyName: "messages_room_id_fkey";
            columns: ["room_id"];
            isOneToOne: false;
            referencedRelation: "rooms";
            referencedColumns: ["id"];
          },
        ];
      };
    };
    Views: { [_ in never]: never };
    Functions: {
      is_member: {
        Args: { room: string };
        Returns: boolean;
      };
      is_owner: {
        Args: { room: string };
        Returns: boolean;
      };
      create_room: {
        Args: { name: string };
        Returns: string;
      };
      join_room: {
        Args: { code: string };
        Returns: string;
      };
      remove_member: {
        Args: { room: string; member: string };
        Returns: undefined;
      };
    };
    Enums: { [_ in never]: never };
    CompositeTypes: { [_ in never]: never };
  };
};

type PublicSchema = Database['public'];

export type Tables<Name extends keyof (PublicSchema['Tables'] & PublicSchema['Views'])> = (PublicSchema['Tables'] &
  PublicSchema['Views'])[Name]['Row'];
export type TablesInsert<Name extends keyof PublicSchema['Tables']> = PublicSchema['Tables'][Name]['Insert'];
export type TablesUpdate<Name extends keyof PublicSchema['Tables']> = PublicSchema['Tables'][Name]['Update'];
export type Enums<Name extends keyof PublicSchema['Enums']> = PublicSchema['Enums'][Name];
