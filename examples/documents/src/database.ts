// Made by `svc types`. Do not edit: it is written again when the schema changes.

export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[];

export type Database = {
  public: {
    Tables: {
      teams: {
        Row: {
          id: string;
          name: string;
          created_at: string;
        };
        Insert: {
          id?: string;
          name: string;
          created_at?: string;
        };
        Update: {
          id?: string;
          name?: string;
          created_at?: string;
        };
        Relationships: [];
      };
      members: {
        Row: {
          team_id: string;
          user_id: string;
          name: string;
          role: "owner" | "editor" | "viewer";
        };
        Insert: {
          team_id: string;
          user_id?: string;
          name?: string;
          role: "owner" | "editor" | "viewer";
        };
        Update: {
          team_id?: string;
          user_id?: string;
          name?: string;
          role?: "owner" | "editor" | "viewer";
        };
        Relationships: [
          {
            foreignKeyName: "members_team_id_fkey";
            columns: ["team_id"];
            isOneToOne: false;
            referencedRelation: "teams";
            referencedColumns: ["id"];
          },
        ];
      };
      invitations: {
        Row: {
          id: string;
          team_id: string;
          role: "editor" | "viewer";
          expires_at: string;
        };
        Insert: {
          id?: string;
          team_id: string;
          role: "editor" | "viewer";
          expires_at?: string;
        };
        Update: {
          id?: string;
          team_id?: string;
          role?: "editor" | "viewer";
          expires_at?: string;
        };
        Relationships: [
          {
            foreignKeyName: "invitations_team_id_fkey";
            columns: ["team_id"];
            isOneToOne: false;
            referencedRelation: "teams";
            referencedColumns: ["id"];
          },
        ];
      };
      documents: {
        Row: {
          id: string;
          team_id: string;
          title: string;
          body: string;
          version: number;
        };
        Insert: {
          id?: string;
          team_id: string;
          title: string;
          body?: string;
          version?: number;
        };
        Update: {
          id?: string;
          team_id?: string;
          title?: string;
          body?: string;
          version?: number;
        };
        Relationships: [
          {
            foreignKeyName: "documents_team_id_fkey";
            columns: ["team_id"];
            isOneToOne: false;
            referencedRelation: "teams";
            referencedColumns: ["id"];
          },
        ];
      };
      attachments: {
        Row: {
          id: string;
          document_id: string;
          name: string;
          path: string;
        };
        Insert: {
          id?: string;
          document_id: string;
          name: string;
          path: string;
        };
        Update: {
          id?: string;
          document_id?: string;
          name?: string;
          path?: string;
        };
        Relationships: [
          {
            foreignKeyName: "attachments_document_id_fkey";
            columns: ["document_id"];
            isOneToOne: false;
            referencedRelation: "documents";
            referencedColumns: ["id"];
          },
        ];
      };
    };
    Views: { [_ in never]: never };
    Functions: {
      my_role: {
        Args: { team: string };
        Returns: string;
      };
      create_team: {
        Args: { name: string };
        Returns: string;
      };
      accept_invitation: {
        Args: { invitation: string };
        Returns: string;
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
